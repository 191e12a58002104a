"""What a row of predictions says: its columns, and how they are filled from scores.

A row is a plain dictionary. Nothing in it depends on when, where or how fast it was computed, so
that a run that was interrupted ends with the very rows of one that was not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from videopipe.data.listing import printable
from videopipe.inference.sources import source_id

if TYPE_CHECKING:
    import pyarrow as pa

    from videopipe.inference.scores import VideoScores

Row = dict[str, Any]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Columns:
    """Which columns the table has. `labels` name the classes; without them, numbers do."""

    labels: tuple[str, ...] | None = None
    top_k: int = 5
    scores: bool = False  # all probabilities, in the order of `labels`
    embeddings: bool = False
    windows: bool = False  # one row per window instead of one per video

    def schema(self) -> "pa.Schema":
        """The Arrow schema; every file format is read and written through it."""
        import pyarrow as pa

        fields = [
            ("id", pa.string()),  # of path and range: the same in every run
            ("path", pa.string()),
            ("content_id", pa.string()),  # of the bytes: the same for copies
            ("status", pa.string()),  # ok, partial, missing, error, timeout, crash, memory
            ("error", pa.string()),
            ("start_seconds", pa.float64()),
            ("end_seconds", pa.float64()),
            ("duration_seconds", pa.float64()),
            ("clips", pa.int64()),  # clips averaged
        ]
        for rank in range(1, self.num_top + 1):
            fields += [(f"label_{rank}", pa.string()), (f"probability_{rank}", pa.float32())]
        fields.append(("entropy", pa.float32()))  # in nats; high means undecided
        if self.scores:
            fields.append(("scores", pa.list_(pa.float32())))
        if self.embeddings:
            fields.append(("embedding", pa.list_(pa.float32())))
        if self.windows:
            fields.append(("last", pa.bool_()))  # true on the last row of a video
        return pa.schema(fields)

    @property
    def num_top(self) -> int:
        """Columns of labels: `top_k`, or all classes where there are fewer."""
        return self.top_k if self.labels is None else min(self.top_k, len(self.labels))


def make_row(scores: "VideoScores", columns: Columns) -> Row:
    """One row of the table."""
    row: Row = {
        "id": source_id(scores.source),
        "path": printable(scores.source.path),
        "content_id": scores.content_id,
        "status": scores.status,
        "error": _one_line(scores.reason),
        "start_seconds": scores.start_seconds,
        "end_seconds": scores.end_seconds,
        "duration_seconds": scores.duration_seconds,
        "clips": scores.num_clips,
    }
    row |= _best(scores.probabilities, columns)
    if columns.scores:
        row["scores"] = _decimals(scores.probabilities)
    if columns.embeddings:
        row["embedding"] = _decimals(scores.embedding)
    if columns.windows:
        row["last"] = scores.last
    return row


def _best(probabilities: Floats | None, columns: Columns) -> Row:
    """The most probable classes first; equal ones in the order of the labels."""
    best: list[int] = []
    entropy = None
    if probabilities is not None:
        best = np.argsort(-probabilities, kind="stable")[: columns.num_top].tolist()
        exact = probabilities.astype(np.float64)
        entropy = shortest(np.float32(abs((exact * np.log(np.maximum(exact, 1e-300))).sum())))
    row: Row = {}
    for rank in range(columns.num_top):
        found = rank < len(best)
        row[f"label_{rank + 1}"] = _label(best[rank], columns.labels) if found else None
        row[f"probability_{rank + 1}"] = (
            shortest(probabilities[best[rank]]) if found and probabilities is not None else None
        )
    return row | {"entropy": entropy}


def _label(index: int, labels: Sequence[str] | None) -> str:
    return str(index) if labels is None else labels[index]


def _decimals(values: Floats | None) -> list[float] | None:
    return None if values is None else [shortest(value) for value in values]


def shortest(value: np.float32) -> float:
    """The shortest decimal that is this float32: 0.1 and not 0.10000000149011612."""
    return float(str(value))


def _one_line(reason: str | None) -> str | None:
    return " ".join(reason.split()) if reason else None
