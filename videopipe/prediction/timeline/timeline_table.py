"""The timelines of a finished table of windows, read one video at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from videopipe.prediction.table.parts import scan_part
from videopipe.prediction.table.table_format import vectors_of
from videopipe.prediction.timeline.segments import Segment, find_segments
from videopipe.prediction.timeline.timeline_settings import TimelineSettings

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("path", pa.string()),
        ("start_seconds", pa.float64()),
        ("end_seconds", pa.float64()),
        ("duration_seconds", pa.float64()),
        ("error", pa.string()),
        ("scores", pa.list_(pa.float32())),
    ]
)


@dataclass(frozen=True)
class VideoTimeline:
    """The intervals of one video; empty if no class reached the threshold or the video failed."""

    id: str
    path: str
    duration_seconds: float | None
    segments: list[Segment]
    error: str | None = None  # why the video has no scores


def read_timelines(
    table: Path,
    labels: Sequence[str] | None,
    settings: TimelineSettings,
    *,
    within_shots: bool = False,
) -> Iterator[VideoTimeline]:
    """The timeline of every video of a table with windows and scores, in its order.

    With `within_shots` the table has a column with the shot of each window.
    """
    schema = pa.schema([("shot", pa.int64()), *SCHEMA]) if within_shots else SCHEMA
    for id_, group in groupby(_rows(table, schema), key=lambda row: row["id"]):
        rows = list(group)
        used = [row for row in rows if row["scores"] is not None]
        segments: list[Segment] = []
        error = None if used else rows[0]["error"]
        if used:
            scores = np.stack([row["scores"] for row in used]).astype(np.float64)
            names = labels or [str(number) for number in range(scores.shape[1])]
            starts = [row["start_seconds"] for row in used]
            ends = [row["end_seconds"] for row in used]
            shots = [row["shot"] for row in used] if within_shots else None
            segments = find_segments(starts, ends, scores, names, settings, shots)
        yield VideoTimeline(id_, rows[0]["path"], rows[0]["duration_seconds"], segments, error)


def _rows(table: Path, schema: pa.Schema) -> Iterator[dict[str, Any]]:
    names = schema.names[:-1]
    for _, group in scan_part(table, schema):
        columns = [group[name].to_pylist() for name in names]
        for *values, scores in zip(*columns, vectors_of(group["scores"]), strict=True):
            yield {**dict(zip(names, values, strict=True)), "scores": scores}
