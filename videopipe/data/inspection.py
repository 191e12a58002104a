"""Looking at video files: length, size and health, each where it can be killed."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from videopipe.data.backends.pyav import PyavDecoder
from videopipe.data.backends.pyav_length import FULLY_INDEXED
from videopipe.data.backends.pyav_reel import Reel
from videopipe.data.content import content_id
from videopipe.data.decoder import check_file
from videopipe.data.manifest import VideoRecord
from videopipe.data.pool import Event, Failed, WorkerPool

Depth = Literal["header", "sampled", "full"]
SAMPLED_FRACTIONS = (0.25, 0.5, 0.75, 1.0)
VARIABLE_RATIO = 1.5  # between the longest and the shortest frame
MEMORY_LIMIT_BYTES = 4 * 2**30


@dataclass(frozen=True)
class InspectionTask:
    """One file to look at, and how closely."""

    record: VideoRecord
    depth: Depth


def inspect_records(
    records: Iterable[VideoRecord],
    *,
    depth: Depth,
    workers: int,
    timeout_seconds: float,
    memory_limit_bytes: int | None = MEMORY_LIMIT_BYTES,
) -> Iterator[VideoRecord]:
    """The records with what was found, as they come; every record comes back, whatever happens."""
    tasks = (InspectionTask(record, depth) for record in records)
    with WorkerPool(
        inspect_in_worker,
        workers=workers,
        timeout_seconds=timeout_seconds,
        memory_limit_bytes=memory_limit_bytes,
    ) as pool:
        for event in pool.run(tasks):
            if isinstance(event, Event):
                yield event.payload
            elif isinstance(event, Failed):
                record = with_file_facts(event.task.record)
                yield replace(record, status="failed", reason=event.reason)


def inspect_in_worker(task: InspectionTask) -> Iterator[VideoRecord]:
    """What a worker of the pool runs."""
    yield inspect_video(task.record, task.depth)


def inspect_video(record: VideoRecord, depth: Depth) -> VideoRecord:
    """The record with what the file says and does; DecodeError when nothing of it can be used."""
    path = Path(record.path)
    check_file(path)
    record = replace(with_file_facts(record), content_id=content_id(path))
    decoder = PyavDecoder(path, None)
    try:
        decoder.frames_at([0.0])  # a picture that cannot become RGB fails here
        steps = _frame_steps(decoder.reel, depth)
        info, problems = decoder.info, list(decoder.problems)
    finally:
        decoder.close()
    return replace(
        record,
        status="partial" if problems else "ok",
        reason="; ".join(problems),
        duration_seconds=round(info.duration_seconds, 6),
        frame_rate=round(info.frame_rate, 6),
        num_frames=info.num_frames,
        height=info.height,
        width=info.width,
        codec=info.codec,
        rotation_degrees=info.rotation_degrees,
        variable_rate=None if steps is None else max(steps) > VARIABLE_RATIO * min(steps),
    )


def with_file_facts(record: VideoRecord) -> VideoRecord:
    """Size and time of change, by which a later run knows that nothing has changed."""
    try:
        status = Path(record.path).stat()
    except (OSError, ValueError):
        return record
    return replace(record, size_bytes=status.st_size, modified_ns=status.st_mtime_ns)


def _frame_steps(reel: Reel, depth: Depth) -> list[float] | None:
    """Decode as much as asked for; the times between frames, where they are then known."""
    if depth == "full":
        times = reel.walk()
    else:
        times = sorted(entry.timestamp for entry in reel.stream.index())
        if reel.stream.format_name not in FULLY_INDEXED:
            times = []
    if depth == "sampled":
        last_seconds = max(0.0, reel.length.duration_seconds - reel.period_seconds)
        reel.wanted = []
        for fraction in SAMPLED_FRACTIONS:
            reel.go_to(fraction * last_seconds)
            if reel.at_end:
                break  # earlier than promised, or all seen
    steps = [after - before for before, after in itertools.pairwise(times)]
    return [step for step in steps if step > 0] or None
