"""Inspecting video files in worker processes: length, size and health."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from videopipe.dataset.manifest import VideoRecord
from videopipe.system.content_id import content_id
from videopipe.system.pool import Event, Failed, WorkerPool
from videopipe.system.pool_worker import heartbeat
from videopipe.video.backends.pyav import PyavDecoder
from videopipe.video.backends.pyav_cursor import FrameCursor
from videopipe.video.backends.pyav_length import FULLY_INDEXED
from videopipe.video.decoder import VideoInfo, check_file
from videopipe.video.frame_folder import FrameFolderDecoder

Depth = Literal["header", "sampled", "full"]
SAMPLED_FRACTIONS = (0.25, 0.5, 0.75, 1.0)
VARIABLE_RATIO = 1.5  # between the longest and the shortest frame
MEMORY_LIMIT_BYTES = 4 * 2**30


@dataclass(frozen=True)
class InspectionTask:
    """One file to inspect, and how much of it to decode."""

    record: VideoRecord
    depth: Depth


def inspect_records(
    records: Iterable[VideoRecord],
    *,
    depth: Depth,
    workers: int,
    timeout_seconds: float,
) -> Iterator[VideoRecord]:
    """The inspected records as they arrive; every record is returned, also after a failure.

    `timeout_seconds` is the longest time without progress, not the time for a whole video.
    """
    tasks = (InspectionTask(record, depth) for record in records)
    with WorkerPool(
        inspect_in_worker,
        workers=workers,
        timeout_seconds=timeout_seconds,
        memory_limit_bytes=MEMORY_LIMIT_BYTES,
    ) as pool:
        for event in pool.run(tasks):
            if isinstance(event, Event):
                yield event.payload
            elif isinstance(event, Failed):
                record = with_file_facts(event.task.record)
                yield replace(record, status=event.kind, reason=event.reason)


def inspect_in_worker(task: InspectionTask) -> Iterator[VideoRecord]:
    """Runs in a worker of the pool."""
    yield inspect_video(task.record, task.depth)


def inspect_video(record: VideoRecord, depth: Depth) -> VideoRecord:
    """The record with the properties of its file; DecodeError when nothing can be decoded."""
    path = Path(record.path)
    if path.is_dir():
        return _inspect_frames(record, depth)
    check_file(path)
    record = replace(with_file_facts(record), content_id=content_id(path))
    decoder = PyavDecoder(path, None)
    try:
        decoder.frames_at([0.0])  # fails for frames that cannot be converted to RGB
        steps = _frame_steps(decoder.cursor, depth)
        info, problems = decoder.info, list(decoder.problems)
    finally:
        decoder.close()
    return replace(
        _with_properties(record, info, problems),
        frame_rate=round(info.frame_rate, 6),
        rotation_degrees=info.rotation_degrees,
        variable_rate=None if steps is None else max(steps) > VARIABLE_RATIO * min(steps),
    )


def _inspect_frames(record: VideoRecord, depth: Depth) -> VideoRecord:
    """As `inspect_video`, for a folder of frames."""
    path = Path(record.path)
    decoder = FrameFolderDecoder(path, None, record.frame_rate)
    info, problems = decoder.info, decoder.problems
    if depth == "full":
        decoder.decode_all()
    elif depth == "sampled":
        last_seconds = info.duration_seconds - 0.5 / info.frame_rate
        decoder.frames_at([fraction * last_seconds for fraction in SAMPLED_FRACTIONS])
    record = replace(with_file_facts(record), content_id=content_id(path))
    return replace(_with_properties(record, info, problems), variable_rate=False)


def _with_properties(record: VideoRecord, info: VideoInfo, problems: Sequence[str]) -> VideoRecord:
    return replace(
        record,
        status="partial" if problems else "ok",
        reason="; ".join(problems),
        duration_seconds=round(info.duration_seconds, 6),
        frame_rate=info.frame_rate,
        num_frames=info.num_frames,
        height=info.height,
        width=info.width,
        codec=info.codec,
    )


def with_file_facts(record: VideoRecord) -> VideoRecord:
    """The record with size and modification time, by which a later run detects a change."""
    try:
        status = Path(record.path).stat()
    except (OSError, ValueError):
        return record
    return replace(record, size_bytes=status.st_size, modified_ns=status.st_mtime_ns)


def _frame_steps(cursor: FrameCursor, depth: Depth) -> list[float] | None:
    """Decode to `depth`; returns the times between frames, if they are known."""
    if depth == "full":
        times = cursor.decode_all()
    else:
        times = sorted(entry.timestamp for entry in cursor.stream.index())
        if cursor.stream.format_name not in FULLY_INDEXED:
            times = []
    if depth == "sampled":
        last_seconds = max(0.0, cursor.length.duration_seconds - cursor.period_seconds)
        cursor.wanted = []
        for fraction in SAMPLED_FRACTIONS:
            cursor.go_to(fraction * last_seconds)
            heartbeat()
            if cursor.at_end:
                break
    steps = [after - before for before, after in itertools.pairwise(times)]
    return [step for step in steps if step > 0] or None
