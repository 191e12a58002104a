"""Rows of earlier runs: which of them are kept, and which videos are predicted again."""

import logging
import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pretrained_2d.atomic import new_file
from videopipe.dataset.lists.video_range import VideoRange, real_path, text_as_path
from videopipe.prediction.table.formats import format_of
from videopipe.prediction.table.parts import scan_part
from videopipe.system.content_id import content_id
from videopipe.system.status import USED
from videopipe.video.sources.addresses import (
    is_in_one_process,
    is_remote,
    is_remote_folder,
    split_member,
)
from videopipe.video.sources.local_copy import local_copy
from videopipe.video.sources.remote import describe
from videopipe.video.sources.remote_frames import describe_frames

log = logging.getLogger(__name__)

STAT_THREADS = 16  # more than cores: they wait for a network disk
VIDEOS_PER_CALL = 512
COLUMNS = ("id", "path", "content_id", "status", "last")


@dataclass(slots=True)
class CompletedVideo:
    """What the parts hold about one video."""

    path: str  # as in the table, see `path_as_text`
    content_id: str | None
    written_at: float  # seconds since 1970; when its part was closed
    rows: int = 0
    complete: bool = False
    failed: bool = False  # one of its rows has no scores


def read_completed(files: Sequence[Path], schema: pa.Schema) -> dict[str, CompletedVideo]:
    """By id, what the given parts hold. A video whose last window is missing is not complete."""
    completed: dict[str, CompletedVideo] = {}
    names = [name for name in COLUMNS if name in schema.names]
    for file in files:
        written_at = file.stat().st_mtime
        for _, table in scan_part(file, pa.schema([schema.field(name) for name in names])):
            lasts = table["last"].to_pylist() if "last" in names else [True] * len(table)
            columns = [table[name].to_pylist() for name in COLUMNS[:4]]
            for id_, path, content, status, last in zip(*columns, lasts, strict=True):
                entry = completed.setdefault(id_, CompletedVideo(path, content, written_at))
                entry.rows += 1
                entry.complete = entry.complete or bool(last)
                entry.failed = entry.failed or status not in USED
                entry.written_at = min(entry.written_at, written_at)
    return completed


def read_failures(file: Path) -> list[tuple[str, str]]:
    """(path, reason) of the rows of a table that have no scores."""
    schema = pa.schema([(name, pa.string()) for name in ("path", "status", "error")])
    rows = (row for _, table in scan_part(file, schema) for row in table.to_pylist())
    return [(row["path"], row["error"] or "") for row in rows if row["status"] not in USED]


def find_new_ids(
    videos: Iterable[VideoRange], completed: Mapping[str, CompletedVideo]
) -> dict[str, str]:
    """Old id -> id, for rows of older tables, whose ids depend on how the path was written."""
    by_path: dict[str, list[tuple[str, str]]] = defaultdict(list)
    known = {video.id for video in videos}
    for id_, entry in completed.items():
        if id_ not in known:
            path = text_as_path(entry.path)
            by_path[real_path(path)].append((id_, path))
    if not by_path:
        return {}
    return {
        id_: video.id
        for video in videos
        for id_, path in by_path.get(real_path(video.path), ())
        if video.id_in_old_tables(path) == id_
    }


def find_changed(videos: Iterable[VideoRange], completed: Mapping[str, CompletedVideo]) -> set[str]:
    """Ids of completed videos whose file has changed since."""
    pairs = [(video, completed[video.id]) for video in videos if video.id in completed]
    chunks = [pairs[i : i + VIDEOS_PER_CALL] for i in range(0, len(pairs), VIDEOS_PER_CALL)]
    with ThreadPoolExecutor(STAT_THREADS) as threads:
        changed = threads.map(
            lambda chunk: [video.id for video, entry in chunk if has_changed(video, entry)], chunks
        )
        return {id_ for ids in changed for id_ in ids}


def has_changed(video: VideoRange, entry: CompletedVideo) -> bool:
    """Whether the file of a completed video has other content now.

    Its bytes are compared only when it was modified after its row was written. For an object
    behind a URL the time of modification decides; one that could not be read is tried again.
    """
    shard = split_member(video.path)
    if shard is not None or is_remote(video.path):
        return _has_changed_elsewhere(video.path, shard[0] if shard else video.path, entry)
    try:
        status = os.stat(video.path)  # noqa: PTH116 - a million times; Path costs more
    except (OSError, ValueError):
        return False  # removed, or still missing: its row is kept
    if entry.content_id is None:  # it could not be read then
        return stat.S_ISREG(status.st_mode) and os.access(video.path, os.R_OK)
    if max(status.st_mtime, status.st_ctime) <= entry.written_at:
        return False
    try:
        return content_id(Path(video.path)) != entry.content_id
    except OSError:
        return False


def _has_changed_elsewhere(path: str, stored_in: str, entry: CompletedVideo) -> bool:
    """As `has_changed`, for an object or a member of a shard; False if it cannot be asked."""
    try:
        if is_remote(stored_in):
            if entry.content_id is None:
                return True
            about = describe_frames if is_remote_folder(stored_in) else describe
            modified_at = about(stored_in).modified_at
            if modified_at is None or modified_at <= entry.written_at:
                return False
            if not is_in_one_process(stored_in):  # else the time is that of this process
                return True
        else:
            status = Path(stored_in).stat()
            if max(status.st_mtime, status.st_ctime) <= entry.written_at:
                return False
        with local_copy(path) as copy:
            return content_id(copy) != entry.content_id
    except Exception as error:  # noqa: BLE001 - every driver has its own kinds of errors
        log.debug("%s: cannot be checked for changes (%s)", stored_in, error)
        return False


def drop_rows(files: Sequence[Path], ids: set[str], schema: pa.Schema) -> None:
    """Remove the rows of these videos from the parts; each part is replaced as a whole."""
    unwanted = pa.array(sorted(ids), pa.string())
    only_ids = pa.schema([schema.field("id")])

    def kept(table: pa.Table) -> pa.Table:
        return table.filter(pc.invert(pc.is_in(table["id"], value_set=unwanted)))

    for file in files:
        rows = [(len(table), len(kept(table))) for _, table in scan_part(file, only_ids)]
        before, after = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0)
        if after == 0:
            file.unlink()
        elif after < before:
            _rewrite(file, schema, kept)


def _rewrite(file: Path, schema: pa.Schema, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replace a part group by group; the file keeps its modification time."""

    def tables() -> Iterator[pa.Table]:
        for _, table in scan_part(file, schema):
            yield change(table)

    times = file.stat()
    with new_file(file) as opened:
        format_of(file).write(opened, schema, tables())
        opened.flush()
        os.utime(opened.fileno(), ns=(times.st_atime_ns, times.st_mtime_ns))
