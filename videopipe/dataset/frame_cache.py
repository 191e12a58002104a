"""A cache of videos at training size, from which clips are decoded quickly.

The cache consists of ordinary video files (Motion JPEG in Matroska) with the timestamps of the
originals. Every frame is a key frame, so any frame is decoded without others.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from videopipe.dataset.clips.sampling import Clip, frame_times
from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.system.pool import Event, Failed, WorkerPool
from videopipe.system.progress import detail_line, log_line, progress
from videopipe.video.backends.pyav import PyavDecoder
from videopipe.video.video import open_video

TICK = Fraction(1, 1000)  # Matroska counts milliseconds
JPEG_SCALE = 2  # 1 is the best quality, 31 the worst; 2 is visually lossless
TRIED_VIDEOS = 3  # stored first to estimate size and speed
CLIP_SECONDS, CLIP_FRAMES = 2.0, 30  # the paper's clip, for the estimate
WORTHWHILE_SPEEDUP = 1.2


@dataclass(frozen=True)
class CacheTask:
    """One video to store."""

    record: VideoRecord
    target: Path
    short_side: int


def cache_frames(
    manifest: Manifest, folder: Path, *, short_side: int, workers: int, timeout_seconds: float
) -> Manifest:
    """Store every usable video in `folder`; videos stored by an earlier run are kept.

    Size and speed are measured on a few videos and reported first. A video that cannot be stored
    is read from its original file. `timeout_seconds` is the longest time without progress.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".*"):  # of a run that was killed while writing
        leftover.unlink()
    tasks = [
        CacheTask(record, folder / cache_name(record), short_side)
        for record in {r.path: r for r in manifest.records if r.usable}.values()
        if record.given_rate is None  # a folder of frames is a cache already
    ]
    todo = [task for task in tasks if not task.target.exists()]
    if todo:
        _report_cost(todo, timeout_seconds)
        _store([task for task in todo if not task.target.exists()], workers, timeout_seconds)
    stored = {t.record.path: str(t.target) for t in tasks if t.target.exists()}
    records = tuple(
        replace(record, frames_path=stored.get(record.path)) for record in manifest.records
    )
    return replace(manifest, records=records)


def cache_name(record: VideoRecord) -> str:
    """The file name of a cached video: its content id if known, so that copies are stored once."""
    path = os.fsencode(record.path)
    return f"{record.content_id or hashlib.blake2b(path, digest_size=12).hexdigest()}.mkv"


def write_cached(task: CacheTask) -> None:
    """Decode a whole video and store it; an incomplete file never gets the final name."""
    beside = task.target.with_name(f".{task.target.name}")
    decoder = PyavDecoder(Path(task.record.path), task.short_side)
    try:
        with av.open(str(beside), "w", format="matroska") as container:
            stream = container.add_stream("mjpeg", rate=1000)
            stream.time_base = TICK
            stream.codec_context.time_base = TICK
            stream.pix_fmt = "yuvj420p"
            stream.thread_count = 1
            stream.codec_context.options = {"qscale": str(JPEG_SCALE)}
            stream.codec_context.flags |= av.codec.context.Flags.qscale
            stream.codec_context.global_quality = JPEG_SCALE * 118  # FF_QP2LAMBDA
            stream.height, stream.width = decoder.info.height, decoder.info.width
            last = -1
            for seconds, pixels in decoder.pictures():
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
                last = max(last + 1, round(seconds / TICK))
                frame.pts, frame.time_base = last, TICK
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        beside.replace(task.target)
    finally:
        decoder.close()
        beside.unlink(missing_ok=True)


def store_in_worker(task: CacheTask) -> Iterator[int]:
    """Runs in a worker of the pool; yields the size in bytes."""
    write_cached(task)
    yield task.target.stat().st_size


def try_in_worker(task: CacheTask) -> Iterator[tuple[int, float, float]]:
    """Store a video; yields the size in bytes and the seconds per clip without and with cache."""
    write_cached(task)
    before, after = _clip_time(task.record.path, task), _clip_time(task.target, task)
    yield task.target.stat().st_size, before, after


def _store(todo: list[CacheTask], workers: int, timeout_seconds: float) -> None:
    if not todo:
        return
    workers = min(workers, len(todo))
    with (
        WorkerPool(store_in_worker, workers=workers, timeout_seconds=timeout_seconds) as pool,
        progress("caching", total=len(todo), unit="videos") as bar,
    ):
        total_bytes = 0
        for event in pool.run(todo):
            if isinstance(event, Event):
                total_bytes += event.payload
                bar.advance(1, f"{total_bytes / 1e6:.0f} MB")
            elif isinstance(event, Failed):
                log_line(f"not cached: {event.task.record.path}: {event.reason}")
                bar.advance(1)


def _report_cost(todo: list[CacheTask], timeout_seconds: float) -> None:
    """Store a few videos from the whole list, and extrapolate by duration."""
    tried = todo[:: max(1, len(todo) // TRIED_VIDEOS)][:TRIED_VIDEOS]
    with WorkerPool(try_in_worker, workers=1, timeout_seconds=timeout_seconds) as pool:
        answers = [event for event in pool.run(tried) if isinstance(event, Event)]
    if not answers:
        return
    tried_seconds = sum(event.task.record.duration_seconds or 1.0 for event in answers)
    all_seconds = sum(task.record.duration_seconds or 1.0 for task in todo)
    sizes, before, after = (
        sum(column) for column in zip(*(e.payload for e in answers), strict=True)
    )
    size_megabytes = sizes * all_seconds / tried_seconds / 1e6
    detail_line(
        f"caching {len(todo)} videos will take about {size_megabytes:.0f} MB; "
        f"{describe_speed(before / len(answers), after / len(answers))}"
    )


def describe_speed(before_seconds: float, after_seconds: float) -> str:
    """How much faster a clip is decoded from the cache, or that it is not."""
    clip = f"a clip of {CLIP_SECONDS:g} s"
    if before_seconds < WORTHWHILE_SPEEDUP * after_seconds:
        return f"{clip} decodes about as fast without the cache, so `cache: none` saves the space"
    speedup = before_seconds / after_seconds
    return f"{clip} then decodes {speedup:.1f} times as fast ({after_seconds * 1e3:.3g} ms)"


def _clip_time(path: Path | str, task: CacheTask) -> float:
    """Seconds to open a video and decode a clip in its middle."""
    middle = max(0.0, (task.record.duration_seconds or 0.0) - CLIP_SECONDS) / 2
    times = frame_times(Clip(middle, middle + CLIP_SECONDS), CLIP_FRAMES)
    start = time.perf_counter()
    with open_video(path, "av", task.short_side) as video:
        video.frames_at(times)
    return time.perf_counter() - start
