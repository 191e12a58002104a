"""What an evaluation leaves behind: a table of every video's scores, and the numbers drawn from it.

`scores.parquet` has one row per video: path, label, status, reason, clips, and one column
`score_<class>` per class. `metrics.json` is computed from that table alone, so a reader can check
it. A video that could not be read has no scores and counts as a mistake: nothing vanishes.
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
from videopipe.statistics import (
    Booleans,
    Floats,
    Integers,
    calibration_bins,
    confusion_matrix,
    expected_calibration_error,
    label_ranks,
    proportion,
)

Metrics = dict[str, Any]  # JSON
SCORES_FILE, METRICS_FILE = "scores.parquet", "metrics.json"
SCORE_PREFIX = "score_"


@dataclass(frozen=True)
class ScoreTable:
    """Every video of an evaluation, in the order of its manifest."""

    labels: tuple[str, ...]  # names of the classes
    paths: tuple[str, ...]
    targets: Integers  # (videos,) true class
    clips: Integers  # (videos,) clips that were averaged
    scores: Floats  # (videos, classes) probabilities in float32; NaN where the video failed
    reasons: tuple[str, ...]  # why a video has no scores; empty where it has

    def __post_init__(self) -> None:
        videos = len(self.paths)
        if self.scores.shape != (videos, len(self.labels)) or len(self.targets) != videos:
            raise ValueError(
                f"scores of shape {self.scores.shape} and {len(self.targets)} targets do not fit "
                f"{videos} videos and {len(self.labels)} classes"
            )

    @property
    def readable(self) -> Booleans:
        """(videos,) which videos have scores."""
        finite: Booleans = np.isfinite(self.scores)
        return np.logical_and.reduce(finite, axis=1)

    def ranks(self) -> Integers:
        """(videos,) classes before the true one; a video without scores is right in no top-k."""
        ranks = np.full(len(self.paths), np.iinfo(np.int64).max)
        readable = self.readable
        ranks[readable] = label_ranks(self.scores[readable], self.targets[readable])
        return ranks


def measure(table: ScoreTable) -> Metrics:
    """All numbers of one evaluation; accuracies come with their Wilson 95 % interval."""
    ranks, readable = table.ranks(), table.readable
    targets, scores = table.targets[readable], table.scores[readable].astype(np.float64)
    num_classes = len(table.labels)
    predicted = np.argsort(-scores, axis=1, kind="stable")[:, 0]
    per_class = [
        {"label": name, **asdict(proportion(int((ranks[own] == 0).sum()), int(own.sum())))}
        for name, own in ((name, table.targets == i) for i, name in enumerate(table.labels))
        if own.any()
    ]
    return {
        "videos": len(table.paths),
        "failed": int((~readable).sum()),
        "clips": int(table.clips.sum()),
        "num_classes": num_classes,
        "labels": list(table.labels),
        "top1": asdict(proportion(int((ranks < 1).sum()), len(ranks))),
        "top5": asdict(proportion(int((ranks < 5).sum()), len(ranks))),
        "mean_class": float(np.mean([entry["value"] for entry in per_class])),
        "per_class": per_class,
        "confusion": confusion_matrix(targets, predicted, num_classes).tolist(),
        "calibration": _calibration(scores, targets),
    }


def _calibration(scores: Floats, targets: Integers) -> Metrics:
    """How far the probabilities can be believed, over the videos that have them."""
    if not len(targets):
        return {"expected_error": None, "log_loss": None, "bins": []}
    confidence = scores.max(axis=1)
    bins = calibration_bins(confidence, label_ranks(scores, targets) == 0)
    true_class = scores[np.arange(len(targets)), targets]
    return {
        "expected_error": expected_calibration_error(bins),
        "log_loss": float(-np.log(np.clip(true_class, 1e-12, None)).mean()),
        "bins": [asdict(group) for group in bins],
    }


def write_evaluation(folder: Path, table: ScoreTable, metrics: Metrics) -> None:
    """Leave both files in `folder`, each whole or not there; the metrics come last."""
    write_scores(folder / SCORES_FILE, table)
    write_text(folder / METRICS_FILE, json.dumps(without_nan(metrics), indent=2, allow_nan=False))


def write_scores(path: Path, table: ScoreTable) -> None:
    """The table as Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    readable = table.readable
    columns: dict[str, Any] = {
        "path": list(table.paths),
        "label": pa.array(table.targets.tolist(), pa.int64()),
        "label_name": [table.labels[target] for target in table.targets],
        "status": ["ok" if fine else "failed" for fine in readable],
        "reason": list(table.reasons),
        "clips": pa.array(table.clips.tolist(), pa.int64()),
    }
    for index, name in enumerate(table.labels):
        column = table.scores[:, index].astype(np.float32)
        columns[SCORE_PREFIX + name] = pa.array(column, mask=~readable)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    write_bytes(path, sink.getvalue().to_pybytes())


def read_scores(folder: Path) -> ScoreTable:
    """The table of an evaluation folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / SCORES_FILE
    try:
        stored = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(
            f"{path}: not a readable table of scores ({error}); evaluate again"
        ) from None
    names = [name for name in stored.column_names if name.startswith(SCORE_PREFIX)]
    columns = [stored[name].to_numpy() for name in names]
    return ScoreTable(
        labels=tuple(name.removeprefix(SCORE_PREFIX) for name in names),
        paths=tuple(stored["path"].to_pylist()),
        targets=stored["label"].to_numpy(),
        clips=stored["clips"].to_numpy(),
        scores=np.stack(columns, axis=1).astype(np.float32),
        reasons=tuple(stored["reason"].to_pylist()),
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
    """JSON has no NaN: what is not known becomes null."""
    if isinstance(value, Mapping):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
