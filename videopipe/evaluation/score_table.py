"""The results of an evaluation: a table with the scores of every video, and its metrics.

`scores.parquet` has one row per video: path, recording, label, status, reason, clips, and one
column `score_<class>` per class. `metrics.json` is computed from that table alone. A video that
could not be read has no scores and counts as a mistake.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pretrained_2d.atomic import write_bytes, write_text
from videopipe.errors import DataError
from videopipe.evaluation.statistics import (
    Booleans,
    Floats,
    Integers,
    calibration_bins,
    confusion_matrix,
    expected_calibration_error,
    label_ranks,
    proportion,
)
from videopipe.system.status import FAILED_BEFORE

Metrics = dict[str, Any]  # JSON
SCORES_FILE, METRICS_FILE = "scores.parquet", "metrics.json"
SCORE_PREFIX = "score_"
COLUMNS_AT_ONCE = 50  # bounds the memory that reading a table of many classes takes


@dataclass(frozen=True)
class ScoreTable:
    """The scores of every video of an evaluation, in the order of its manifest."""

    labels: tuple[str, ...]  # names of the classes
    paths: tuple[str, ...]
    targets: Any  # (videos,) true class; of multi-label data (videos, classes) booleans
    clips: Integers  # (videos,) clips that were averaged
    scores: Floats  # (videos, classes) probabilities in float32; NaN where the video failed
    reasons: tuple[str, ...]  # why a video has no scores, or what is wrong with its file
    recordings: tuple[str, ...] = ()  # what each video was cut from; empty: each from its own file
    statuses: tuple[str, ...] = ()  # see videopipe/system/status.py

    def __post_init__(self) -> None:
        videos = len(self.paths)
        if self.scores.shape != (videos, len(self.labels)) or len(self.targets) != videos:
            raise ValueError(
                f"scores of shape {self.scores.shape} and {len(self.targets)} targets do not fit "
                f"{videos} videos and {len(self.labels)} classes"
            )
        if not self.statuses:
            statuses = tuple("ok" if fine else "error" for fine in self.readable)
            object.__setattr__(self, "statuses", statuses)
        if not self.recordings:
            object.__setattr__(self, "recordings", self.paths)

    @property
    def multi_label(self) -> bool:
        """Whether a video may show several classes, or none."""
        return bool(self.targets.ndim == 2)

    @property
    def readable(self) -> Booleans:
        """(videos,) which videos have scores."""
        finite: Booleans = np.isfinite(self.scores)
        return np.logical_and.reduce(finite, axis=1)

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Path and reason of every video without scores."""
        return [(self.paths[i], self.reasons[i]) for i in np.flatnonzero(~self.readable)]

    def ranks(self) -> Integers:
        """(videos,) classes before the true one; a video without scores is right in no top-k."""
        ranks = np.full(len(self.paths), np.iinfo(np.int64).max)
        readable = self.readable
        ranks[readable] = label_ranks(self.scores[readable], self.targets[readable])
        return ranks


def measure(table: ScoreTable) -> Metrics:
    """All numbers of one evaluation; accuracies come with a 95 % interval over recordings."""
    ranks, readable = table.ranks(), table.readable
    recordings = np.unique(table.recordings, return_inverse=True)[1]
    targets, scores = table.targets[readable], table.scores[readable]
    num_classes = len(table.labels)
    predicted = scores.argmax(axis=1) if len(scores) else targets
    per_class = [
        {"label": name, **asdict(proportion(ranks[own] == 0, recordings[own]))}
        for name, own in ((name, table.targets == i) for i, name in enumerate(table.labels))
        if own.any()
    ]
    return {
        "videos": len(table.paths),
        "recordings": len(set(table.recordings)),
        "failed": int((~readable).sum()),
        "clips": int(table.clips.sum()),
        "num_classes": num_classes,
        "labels": list(table.labels),
        "top1": asdict(proportion(ranks < 1, recordings)),
        "top5": asdict(proportion(ranks < 5, recordings)),
        "mean_class": float(np.mean([entry["value"] for entry in per_class])),
        "per_class": per_class,
        "confusion": confusion_matrix(targets, predicted, num_classes).tolist(),
        "calibration": _calibration(scores, targets),
    }


def _calibration(scores: Floats, targets: Integers) -> Metrics:
    """How well the probabilities agree with the accuracy, over the videos that have scores."""
    if not len(targets):
        return {"expected_error": None, "log_loss": None, "bins": []}
    confidence = scores.max(axis=1).astype(np.float64)
    bins = calibration_bins(confidence, label_ranks(scores, targets) == 0)
    true_class = scores[np.arange(len(targets)), targets].astype(np.float64)
    return {
        "expected_error": expected_calibration_error(bins),
        "log_loss": float(-np.log(np.clip(true_class, 1e-12, None)).mean()),
        "bins": [asdict(group) for group in bins],
    }


def write_evaluation(folder: Path, table: ScoreTable, metrics: Metrics) -> None:
    """Write both files into `folder`, each atomically; the metrics last."""
    write_scores(folder / SCORES_FILE, table)
    write_text(folder / METRICS_FILE, json.dumps(without_nan(metrics), indent=2, allow_nan=False))


def write_scores(path: Path, table: ScoreTable) -> None:
    """The table as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    readable = table.readable
    columns: dict[str, Any] = {
        "path": list(table.paths),
        "recording": list(table.recordings),
        **_target_columns(table),
        "status": list(table.statuses),
        "reason": list(table.reasons),
        "clips": pa.array(table.clips.tolist(), pa.int64()),
    }
    for index, name in enumerate(table.labels):
        column = table.scores[:, index].astype(np.float32)
        columns[SCORE_PREFIX + name] = pa.array(column, mask=~readable)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    write_bytes(path, sink.getvalue().to_pybytes())


def _target_columns(table: ScoreTable) -> dict[str, Any]:
    """The columns label and label_name; of multi-label data they hold lists."""
    import pyarrow as pa

    if not table.multi_label:
        return {
            "label": pa.array(table.targets.tolist(), pa.int64()),
            "label_name": [table.labels[target] for target in table.targets],
        }
    shown = [np.flatnonzero(row).tolist() for row in table.targets]
    names = [[table.labels[i] for i in row] for row in shown]
    return {
        "label": pa.array(shown, pa.list_(pa.int64())),
        "label_name": pa.array(names, pa.list_(pa.string())),
    }


def _targets(column: Any, num_classes: int) -> Any:
    """The targets of a stored column label."""
    import pyarrow as pa

    if not pa.types.is_list(column.type):
        return column.to_numpy()
    targets = np.zeros((len(column), num_classes), dtype=bool)
    for row, shown in enumerate(column.to_pylist()):
        targets[row, shown] = True
    return targets


def read_scores(folder: Path) -> ScoreTable:
    """The table of an evaluation folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / SCORES_FILE
    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            names = [name for name in columns if name.startswith(SCORE_PREFIX)]
            stored = file.read(columns=[name for name in columns if name not in names])
            scores = np.empty((len(stored), len(names)), dtype=np.float32)
            for start in range(0, len(names), COLUMNS_AT_ONCE):
                part = file.read(columns=names[start : start + COLUMNS_AT_ONCE])
                for index, name in enumerate(names[start : start + COLUMNS_AT_ONCE], start):
                    scores[:, index] = part[name].to_numpy()
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(
            f"{path}: not a readable table of scores ({error}); evaluate again"
        ) from None
    # Tables of earlier versions have no recordings.
    recordings = stored["recording"].to_pylist() if "recording" in columns else ()
    return ScoreTable(
        labels=tuple(name.removeprefix(SCORE_PREFIX) for name in names),
        paths=tuple(stored["path"].to_pylist()),
        targets=_targets(stored["label"], len(names)),
        clips=stored["clips"].to_numpy(),
        scores=scores,
        reasons=tuple(stored["reason"].to_pylist()),
        statuses=tuple(
            status.replace(FAILED_BEFORE, "error") for status in stored["status"].to_pylist()
        ),
        recordings=tuple(recordings),
    )


def read_metrics(folder: Path) -> Metrics:
    """The numbers of an evaluation folder."""
    path = folder / METRICS_FILE
    try:
        found: Metrics = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise DataError(f"{path}: not readable metrics ({error}); evaluate again") from None
    return found


def without_nan(value: Any) -> Any:
    """Replace NaN and infinity by None, which JSON can hold."""
    if isinstance(value, Mapping):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
