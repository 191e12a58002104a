"""From labelled videos to their table of scores, by the engine that `predict` uses too.

So an evaluation, a later one and a batch prediction of the same checkpoint agree to the last bit.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pretrained_2d.card import ModelCard
from videopipe.data.manifest import VideoRecord
from videopipe.errors import DataError
from videopipe.evaluation import ScoreTable
from videopipe.inference.engine import Engine
from videopipe.inference.scores import VideoScores
from videopipe.inference.settings import Execution, Scoring


def score_records(
    network: nn.Module,
    card: ModelCard,
    records: Sequence[VideoRecord],
    labels: Sequence[str],
    *,
    scoring: Scoring,
    execution: Execution,
    on_video: Callable[[], Any] = lambda: None,
) -> ScoreTable:
    """Score every record; `labels` are the names that the records' labels count."""
    with Engine(network, card, scoring, execution) as engine:
        return score_with(engine, card, records, labels, on_video=on_video)


def score_with(
    engine: Engine,
    card: ModelCard,
    records: Sequence[VideoRecord],
    labels: Sequence[str],
    *,
    on_video: Callable[[], Any] = lambda: None,
) -> ScoreTable:
    """As `score_records`, with an engine that is running already.

    With several processes each scores its share, and all of them get the whole table.
    """
    classes = card.labels or tuple(labels)
    targets = [class_of(record, labels, classes) for record in records]
    rank, count = _place_among_processes()
    own = range(rank, len(records), count)
    scored: dict[int, VideoScores] = {}
    for video in engine.score(records[index] for index in own):
        scored[own[video.index]] = video
        on_video()
    scored = _gather(scored)
    rows = [scored[index] for index in range(len(records))]
    return ScoreTable(
        labels=tuple(classes),
        paths=tuple(str(record.path) for record in records),
        targets=np.array(targets, dtype=np.int64),
        clips=np.array([row.num_clips for row in rows], dtype=np.int64),
        scores=_stack((row.probabilities for row in rows), len(classes)),
        reasons=tuple(row.reason or "" for row in rows),
    )


def class_of(record: VideoRecord, labels: Sequence[str], classes: Sequence[str]) -> int:
    """The place of a record's class among the model's, which may stand in another order."""
    if record.label is None:
        raise DataError(f"{record.path} has no label; evaluate labelled videos, predict the others")
    name = labels[record.label]
    if name not in classes:
        raise DataError(
            f"{record.path} shows {name!r}, which the model does not know; its {len(classes)} "
            f"classes are {', '.join(classes[:8])}{', …' if len(classes) > 8 else ''}. Fine-tune "
            "it on these classes first"
        )
    return classes.index(name)


class AtRate(nn.Module):
    """A video network told that its time axis runs `rate` base steps per step."""

    def __init__(self, network: nn.Module, rate: float) -> None:
        super().__init__()
        self.network, self.rate = network, rate

    def forward(self, clip: Tensor) -> Tensor:
        """(batch, channels, time, height, width) -> logits; space stays at its own resolution."""
        return self.network(clip, (self.rate, 1.0, 1.0))


def _stack(rows: Iterable[Any], num_classes: int) -> np.ndarray:
    nothing = np.full(num_classes, np.nan, dtype=np.float32)
    scores = [nothing if row is None else row for row in rows]
    return np.stack(scores) if scores else np.empty((0, num_classes), dtype=np.float32)


def _place_among_processes() -> tuple[int, int]:
    if not torch.distributed.is_initialized():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _gather(scored: Mapping[int, VideoScores]) -> dict[int, VideoScores]:
    count = _place_among_processes()[1]
    if count == 1:
        return dict(scored)
    shares: list[Any] = [None] * count
    torch.distributed.all_gather_object(shares, dict(scored))
    return {index: video for share in shares for index, video in share.items()}
