"""Score labelled videos with the engine that `predict` uses.

An evaluation and a batch prediction of the same checkpoint on one machine give the same scores, bit
for bit.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.layouts.listing import printable
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DataError
from videopipe.evaluation.score_table import ScoreTable
from videopipe.models import num_outputs
from videopipe.prediction.score_journal import score_resumable
from videopipe.scoring.engine import Engine
from videopipe.scoring.scores import VideoScores
from videopipe.scoring.settings import Execution, Scoring
from videopipe.system.processes import connected_processes
from videopipe.system.progress import counted


@dataclass(frozen=True)
class Journal:
    """The folder in which an evaluation stores the scores of each video once they are computed."""

    folder: Path
    identity: Mapping[str, Any]  # JSON: decides the scores, with the settings of scoring

    def also(self, **identity: Any) -> "Journal":
        """The same folder, with further values that decide the scores."""
        return Journal(self.folder, {**self.identity, **identity})


def score_records(
    network: nn.Module,
    card: ModelCard,
    records: Sequence[VideoRecord],
    labels: Sequence[str],
    *,
    scoring: Scoring,
    execution: Execution,
    journal: Journal | None = None,
    on_video: Callable[[], Any] = lambda: None,
) -> ScoreTable:
    """Score every record; the label of a record is an index into `labels`.

    With a journal, videos that an interrupted call has scored are not scored again; those that
    failed are retried.
    """
    with Engine(network, card, scoring, execution) as engine:
        return score_with(engine, card, records, labels, journal=journal, on_video=on_video)


def score_with(
    engine: Engine,
    card: ModelCard,
    records: Sequence[VideoRecord],
    labels: Sequence[str],
    *,
    journal: Journal | None = None,
    on_video: Callable[[], Any] = lambda: None,
) -> ScoreTable:
    """As `score_records`, with an engine that is running already.

    With several processes each scores its share, and all of them get the whole table.
    """
    classes = card.labels or tuple(labels)
    targets = targets_of(records, labels, classes)
    processes = connected_processes()
    own = range(processes.rank, len(records), processes.count)
    scored: dict[int, VideoScores] = {}
    videos = [records[index] for index in own]
    if journal is None:
        results = engine.score(videos)
    else:
        identity = {**journal.identity, "scoring": engine.scoring.identity()}
        results = score_resumable(
            engine, videos, journal.folder, identity=identity, retry_failed=True
        )
    for video in results:
        scored[own[video.index]] = video
        on_video()
    everything = {index: row for share in processes.gather(scored) for index, row in share.items()}
    rows = [everything[index] for index in range(len(records))]
    return ScoreTable(
        labels=tuple(classes),
        paths=tuple(printable(record.path) for record in records),
        targets=targets,
        clips=np.array([row.num_clips for row in rows], dtype=np.int64),
        scores=_stack((row.probabilities for row in rows), len(classes)),
        reasons=tuple(row.reason or "" for row in rows),
        statuses=tuple(row.status for row in rows),
        recordings=tuple(printable(record.group or record.path) for record in records),
    )


def check_classes(
    network: nn.Module, card: ModelCard, records: Sequence[VideoRecord], labels: Sequence[str]
) -> None:
    """DataError when the model cannot be right about these videos: it has other classes, or none.

    The message names all classes of the videos that are missing, before a video is decoded.
    """
    outputs = num_outputs(network)
    if outputs == 0:
        raise DataError(
            "the model is an encoder without a classifying layer; fine-tune or probe it first"
        )
    multi_label = any(record.labels is not None for record in records)
    if multi_label != card.multi_label:
        kinds = ("one label per video", "several labels per video")
        raise DataError(
            f"the data has {kinds[multi_label]}, but the model was trained on data with "
            f"{kinds[card.multi_label]}, so its scores have another meaning. Fine-tune it on such "
            "data first"
        )
    if card.labels is None:
        if outputs != len(labels):
            raise DataError(
                f"the model distinguishes {outputs} classes and has no names for them; the data "
                f"has {len(labels)} classes. Fine-tune it on these classes first"
            )
        return
    numbers = {n for r in records for n in (r.labels or () if r.label is None else (r.label,))}
    shown = {labels[number] for number in numbers}
    if unknown := sorted(shown - set(card.labels)):
        raise DataError(
            f"{len(unknown)} of the {len(shown)} classes of the videos are not classes of the "
            f"model: {_few(unknown)}. Its {len(card.labels)} classes are {_few(card.labels)}. "
            "Fine-tune it on these classes first"
        )


def _few(names: Sequence[str]) -> str:
    return f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}"


def check_failed(
    table: ScoreTable, max_failed: float, *, known: Collection[str] = frozenset()
) -> None:
    """Refuse a table in which more than the fraction `max_failed` of the videos has no scores.

    The videos in `known` could not be read before either; they are not counted.

    Raises:
        DataError: says how many, the most frequent reasons, and the first video.
    """
    failed = [(path, reason) for path, reason in table.failed if path not in known]
    num_videos = sum(path not in known for path in table.paths)
    if len(failed) <= max_failed * num_videos:
        return
    counts = Counter(reason.removeprefix(f"{path}: ") for path, reason in failed).most_common(3)
    raise DataError(
        f"{len(failed)} of {num_videos} videos have no scores, more than max_failed "
        f"({max_failed:g} of them): "
        + "; ".join(f"{reason} ({counted(count, 'video')})" for reason, count in counts)
        + f". First: {failed[0][0]}. Make the videos readable, or raise max_failed"
    )


def targets_of(
    records: Sequence[VideoRecord], labels: Sequence[str], classes: Sequence[str]
) -> np.ndarray:
    """(videos,) class numbers; of multi-label data (videos, classes) booleans."""
    if not any(record.labels is not None for record in records):
        targets = [class_of(record, labels, classes) for record in records]
        return np.array(targets, dtype=np.int64)
    shown = np.zeros((len(records), len(classes)), dtype=bool)
    for row, record in enumerate(records):
        if record.labels is None:
            raise DataError(
                f"{record.path} has no list of labels, others of the data have; expected a column "
                "'labels' for every video"
            )
        for label in record.labels:
            shown[row, class_of(replace(record, label=label), labels, classes)] = True
    return shown


def class_of(record: VideoRecord, labels: Sequence[str], classes: Sequence[str]) -> int:
    """The index of a record's class among those of the model, which may have another order."""
    if record.label is None:
        raise DataError(f"{record.path} has no label; evaluate labelled videos, predict the others")
    name = labels[record.label]
    if name not in classes:
        raise DataError(
            f"{record.path} shows {name!r}, which the model does not know; its {len(classes)} "
            f"classes are {_few(classes)}. Fine-tune it on these classes first"
        )
    return classes.index(name)


def _stack(rows: Iterable[Any], num_classes: int) -> np.ndarray:
    nothing = np.full(num_classes, np.nan, dtype=np.float32)
    scores = [nothing if row is None else row for row in rows]
    return np.stack(scores) if scores else np.empty((0, num_classes), dtype=np.float32)
