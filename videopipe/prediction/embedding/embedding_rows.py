"""Rows of embeddings: one per video, window or frame, or one array file per video."""

import io
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pretrained_2d.atomic import write_bytes
from videopipe.prediction.table.rows import PredictionRow, base_fields, base_row
from videopipe.scoring.scores import VideoScores
from videopipe.system.status import USED

Per = Literal["video", "window", "frame"]
DType = Literal["float16", "float32"]
OUT_OF_RANGE = "the embedding exceeds the range of float16 (65504); use --dtype float32"
ROUNDING_SECONDS = 1e-6
Vector = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class EmbeddingShape:
    """What one result of the model holds: `steps` vectors of `width` numbers."""

    width: int
    steps: int  # frames of a window; 1 for videos and windows
    clip_seconds: float
    dtype: DType
    per: Per
    shots: bool = False  # a column with the number of the shot

    def rows(self, scores: VideoScores) -> Iterator[PredictionRow]:
        """One row per vector; one without a vector where the video failed.

        A frame that begins after the end of the video has no row.
        """
        row = base_row(scores) | ({"shot": scores.shot} if self.shots else {})
        vectors = None
        if scores.logits is not None:  # the engine calls the output of any network logits
            with np.errstate(over="ignore"):
                vectors = scores.logits.astype(self.dtype).reshape(self.steps, -1)
            if not np.isfinite(vectors).all():
                vectors, row = None, row | {"status": "error", "error": OUT_OF_RANGE}
        start, end = scores.start_seconds, scores.end_seconds
        if vectors is None or self.steps == 1 or start is None or end is None:
            yield row | {"embedding": None if vectors is None else vectors[0]}
            return
        step = self.clip_seconds / self.steps
        for number, vector in enumerate(vectors):
            begins = start + number * step
            if number == 0 or begins < end - ROUNDING_SECONDS:
                times = {"start_seconds": begins, "end_seconds": min(begins + step, end)}
                yield row | times | {"embedding": vector}


@dataclass(frozen=True)
class EmbeddingColumns:
    """One row per video, window or frame, with the embedding as a list of fixed size."""

    shape: EmbeddingShape

    @property
    def rows_per_window(self) -> int:
        """Frames of a window."""
        return self.shape.steps

    def schema(self) -> pa.Schema:
        """The columns of every table, and the vector."""
        numbers = pa.float16() if self.shape.dtype == "float16" else pa.float32()
        fields = [*base_fields(), ("embedding", pa.list_(numbers, self.shape.width))]
        if self.shape.shots:
            fields.append(("shot", pa.int64()))  # cuts before the window
        if self.shape.per != "video":
            fields.append(("last", pa.bool_()))  # true on the last row of a video
        return pa.schema(fields)

    def rows(self, scores: VideoScores) -> list[PredictionRow]:
        """The rows of a video or a window."""
        rows = list(self.shape.rows(scores))
        if self.shape.per != "video":
            rows = [row | {"last": False} for row in rows]
            rows[-1]["last"] = scores.last
        return rows


@dataclass(frozen=True)
class NpyFolder:
    """One `.npy` file per video, and a row that names it; the file is written before the row.

    The array is (features,) per video, else (windows or frames, features).
    """

    shape: EmbeddingShape
    folder: Path
    _collected: dict[int, list[PredictionRow]] = field(default_factory=lambda: defaultdict(list))

    @property
    def rows_per_window(self) -> int:
        """A video has one row, so one that was interrupted starts from its beginning."""
        return 1

    def schema(self) -> pa.Schema:
        """The columns of every table, the file, its shape, and when its windows begin."""
        fields = [("file", pa.string()), ("shape", pa.list_(pa.int64()))]
        if self.shape.per != "video":
            fields.append(("starts_seconds", pa.list_(pa.float64())))
        return pa.schema([*base_fields(), *fields])

    def rows(self, scores: VideoScores) -> list[PredictionRow]:
        """The row of a video, after its last window."""
        collected = self._collected[scores.index]
        collected += self.shape.rows(scores)
        if not scores.last:
            return []
        del self._collected[scores.index]
        used = [row for row in collected if row["embedding"] is not None]
        row = collected[-1] | {"file": None, "shape": None, "starts_seconds": None}
        del row["embedding"]
        if self.shape.per == "video":
            del row["starts_seconds"]
        if not used:
            return [row]
        if row["status"] not in USED:  # the windows before the failure are kept
            row["status"] = "partial"
        row["start_seconds"], row["end_seconds"] = used[0]["start_seconds"], used[-1]["end_seconds"]
        array = np.stack([one["embedding"] for one in used])
        if self.shape.per == "video":
            array = array[0]
        else:
            row["starts_seconds"] = [one["start_seconds"] for one in used]
        row |= {"file": f"{row['id'][:2]}/{row['id']}.npy", "shape": list(array.shape)}
        content = io.BytesIO()
        np.save(content, array)
        write_bytes(self.folder / row["file"], content.getvalue())
        return [row]
