"""The rows of predictions: their columns, and how they are filled; `parts.py` writes them.

A row is a plain dictionary. Nothing in it depends on when, where or how fast it was computed, so
that an interrupted and resumed run gives the same rows as an uninterrupted one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from videopipe.dataset.layouts.listing import printable
from videopipe.dataset.lists.video_range import path_as_text

if TYPE_CHECKING:
    import pyarrow as pa

    from videopipe.scoring.scores import VideoScores

PredictionRow = dict[str, Any]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Columns:
    """Which columns the table has. `labels` name the classes; without them, numbers do."""

    labels: tuple[str, ...] | None = None
    top_k: int = 5
    scores: bool = False  # all probabilities, in the order of `labels`
    embeddings: bool = False
    embedding_size: int = -1  # numbers of each; -1: not known
    windows: bool = False  # one row per window instead of one per video
    shots: bool = False  # the number of the shot of a window

    def schema(self) -> "pa.Schema":
        """The Arrow schema; every file format is read and written through it."""
        import pyarrow as pa

        fields = base_fields()
        for rank in range(1, self.num_top + 1):
            fields += [(f"label_{rank}", pa.string()), (f"probability_{rank}", pa.float32())]
        fields.append(("entropy", pa.float32()))  # in nats
        if self.scores:
            fields.append(("scores", pa.list_(pa.float32())))
        if self.embeddings:
            fields.append(("embedding", pa.list_(pa.float32(), self.embedding_size)))
        if self.shots:
            fields.append(("shot", pa.int64()))  # cuts before the window
        if self.windows:
            fields.append(("last", pa.bool_()))  # true on the last row of a video
        return pa.schema(fields)

    @property
    def rows_per_window(self) -> int:
        """One row for each result of the model."""
        return 1

    def rows(self, scores: "VideoScores") -> list[PredictionRow]:
        """The row of one result. An embedding stays an array, which Arrow takes as it is."""
        return [make_row(scores, self, as_array=True)]

    @property
    def num_top(self) -> int:
        """Columns of labels: `top_k`, or all classes where there are fewer."""
        return self.top_k if self.labels is None else min(self.top_k, len(self.labels))


def base_fields() -> list[tuple[str, "pa.DataType"]]:
    """Name and type of the columns that every table has."""
    import pyarrow as pa

    return [
        ("id", pa.string()),  # of path and range: the same in every run
        ("path", pa.string()),
        ("content_id", pa.string()),  # of the bytes: the same for copies
        ("status", pa.string()),  # see videopipe/system/status.py
        ("error", pa.string()),
        ("start_seconds", pa.float64()),
        ("end_seconds", pa.float64()),
        ("duration_seconds", pa.float64()),
        ("clips", pa.int64()),  # clips averaged
    ]


def base_row(scores: "VideoScores") -> PredictionRow:
    """The values of the columns that every table has."""
    return {
        "id": scores.source.id,
        "path": path_as_text(scores.source.path),
        "content_id": scores.content_id,
        "status": scores.status,
        "error": _one_line(scores.reason),
        "start_seconds": scores.start_seconds,
        "end_seconds": scores.end_seconds,
        "duration_seconds": scores.duration_seconds,
        "clips": scores.num_clips,
    }


def make_row(scores: "VideoScores", columns: Columns, *, as_array: bool = False) -> PredictionRow:
    """One row of the table; its embedding as an array, or as numbers for JSON."""
    row = base_row(scores)
    row |= _best(scores.probabilities, columns)
    if columns.scores:
        row["scores"] = decimals(scores.probabilities)
    if columns.embeddings:
        row["embedding"] = scores.embedding if as_array else decimals(scores.embedding)
    if columns.shots:
        row["shot"] = scores.shot
    if columns.windows:
        row["last"] = scores.last
    return row


def _best(probabilities: Floats | None, columns: Columns) -> PredictionRow:
    """The most probable classes first; equal ones in the order of the labels."""
    best: list[int] = []
    entropy = None
    if probabilities is not None:
        best = np.argsort(-probabilities, kind="stable")[: columns.num_top].tolist()
        exact = probabilities.astype(np.float64)
        entropy = shortest(np.float32(abs((exact * np.log(np.maximum(exact, 1e-300))).sum())))
    row: PredictionRow = {}
    for rank in range(columns.num_top):
        found = rank < len(best)
        row[f"label_{rank + 1}"] = _label(best[rank], columns.labels) if found else None
        row[f"probability_{rank + 1}"] = (
            shortest(probabilities[best[rank]]) if found and probabilities is not None else None
        )
    return row | {"entropy": entropy}


def _label(index: int, labels: Sequence[str] | None) -> str:
    return str(index) if labels is None else labels[index]


def decimals(values: Floats | None) -> list[float] | None:
    """An array as numbers for JSON, each the shortest that is the same float32."""
    return None if values is None else [shortest(value) for value in values]


def shortest(value: np.float32) -> float:
    """The shortest decimal that is this float32: 0.1 and not 0.10000000149011612."""
    return float(str(value))


def _one_line(reason: str | None) -> str | None:
    return " ".join(printable(reason).split()) if reason else None
