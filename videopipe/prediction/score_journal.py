"""Scores that survive an interruption: every video of a list is scored once, across restarts."""

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from videopipe.dataset.layouts.listing import printable
from videopipe.dataset.lists.video_range import path_as_text
from videopipe.prediction.table.completed_rows import CompletedVideo, has_changed
from videopipe.prediction.table.parts import (
    JOURNALS,
    PartWriter,
    explained,
    list_parts,
    read_journal,
    read_part,
)
from videopipe.prediction.table.rows import PredictionRow, decimals
from videopipe.prediction.table.table_format import as_rows
from videopipe.scoring.engine import Engine, Video, as_range
from videopipe.scoring.scores import VideoScores
from videopipe.system.status import USED

SUFFIX = ".parquet"
ARRAYS = ("logits", "probabilities", "embedding")
PLAIN = (
    "status", "reason", "content_id", "duration_seconds", "start_seconds", "end_seconds",
    "num_clips",
)  # fmt: skip
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("path", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("content_id", pa.string()),
        ("duration_seconds", pa.float64()),
        ("start_seconds", pa.float64()),
        ("end_seconds", pa.float64()),
        ("num_clips", pa.int64()),
        *((name, pa.list_(pa.float32())) for name in ARRAYS),
    ]
)


def score_resumable(
    engine: Engine,
    videos: Sequence[Video],
    folder: Path,
    *,
    identity: Mapping[str, Any],
    retry_failed: bool = False,
) -> Iterator[VideoScores]:
    """Score every video once and keep each result in `folder`; `index` is the place in `videos`.

    Results of an earlier, interrupted call come first, without decoding. A result is reused when it
    has the same `identity` (JSON of the model and settings that decide the scores) and its file has
    not changed since; with `retry_failed` only when it has scores. A process that is killed loses
    at most the videos that it was decoding.

    Several processes may use one folder at the same time if each passes other videos. The caller
    removes the folder when its own result is written.
    """
    if engine.scoring.windows:
        raise ValueError("score_resumable takes whole videos; expected scoring.windows to be False")
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    digest = sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]
    sources = [as_range(video) for video in videos]
    places = defaultdict[str, list[int]](list)  # a video that is listed twice is scored once
    for index, source in enumerate(sources):
        places[source.id].append(index)
    for id_, (row, written_at) in _read_rows(folder, digest, places).items():
        entry = CompletedVideo(row["path"], row["content_id"], written_at)
        if retry_failed and row["status"] not in USED:
            continue
        if not has_changed(sources[places[id_][0]], entry):
            for index in places.pop(id_):
                yield VideoScores(source=sources[index], index=index, **_fields(row))
    # Files sort by name, and a later row of a video replaces an earlier one.
    run = f"{time.time_ns():020}-{uuid.uuid4().hex[:6]}"
    writer = PartWriter(folder, f"{digest}-{run}", SCHEMA, SUFFIX)
    for scores in engine.score(sources[indices[0]] for indices in list(places.values())):
        id_ = scores.source.id
        writer.add(_row(id_, scores))
        for index in places[id_]:
            yield replace(scores, source=sources[index], index=index)
    writer.finish_part()


def _read_rows(
    folder: Path, digest: str, wanted: Mapping[str, Any]
) -> dict[str, tuple[PredictionRow, float]]:
    """By id, the newest row in `folder` and the time at which it was written."""
    found: dict[str, tuple[PredictionRow, float]] = {}
    # Journals first: another process may turn its journal into a part in the meantime.
    files = sorted(folder.glob(JOURNALS)) + list_parts(folder, SUFFIX)
    for file in sorted(files, key=lambda file: file.name.removeprefix("_")):
        if not file.name.removeprefix("_").startswith(f"part-{digest}-"):
            continue
        try:
            written_at = file.stat().st_mtime
            is_part = file.suffix == SUFFIX
            rows = as_rows(read_part(file, SCHEMA)) if is_part else read_journal(file)
            found |= {row["id"]: (row, written_at) for row in rows if row["id"] in wanted}
        except FileNotFoundError:
            continue  # the journal of another process, which has become a part
    return found


def _row(id_: str, scores: VideoScores) -> PredictionRow:
    row: PredictionRow = {"id": id_, "path": path_as_text(scores.source.path)}
    row |= {name: getattr(scores, name) for name in PLAIN}
    row["reason"] = None if scores.reason is None else printable(scores.reason)
    return row | {name: decimals(getattr(scores, name)) for name in ARRAYS}


def _fields(row: PredictionRow) -> dict[str, Any]:
    arrays = {name: row[name] for name in ARRAYS}
    return {name: row[name] for name in PLAIN} | {
        name: None if values is None else np.array(values, np.float32)
        for name, values in arrays.items()
    }
