"""Strange, broken and mangled files: each ends as decoded or as a recorded failure."""

import gc
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from tests.videopipe.video.installed_backends import backends_slow_except
from videopipe.dataset.clips.sampling import frame_times, random_clip, sliding_windows
from videopipe.system.pool import Failed, Finished, WorkerPool
from videopipe.video.decoder import EndOfVideoError
from videopipe.video.video import open_video
from videopipe.video.writing import write_video

LIMITS = {"workers": 2, "timeout_seconds": 60.0, "memory_limit_bytes": 3 * 2**30}
# Refused by every backend: none of them is a video.
HOPELESS = {
    "ExoPlayer__bear-id3.mp3",
    "ExoPlayer__full_blocks.mkv",
    "ExoPlayer__sample_opus.mp4",
    "ExoPlayer__smpte_init.mp4",
    "mp4parse-rust__chunk_out_of_range.mp4",
    "mp4parse-rust__test_case_1185230.mp4",
    "mp4parse-rust__zero_empty_stsc.mp4",
    "torchcodec__sine_mono_mp3.swf",
}


def decode_some(task: tuple[str, Path]) -> Iterator[tuple[int, ...]]:
    """What a worker does with a file: up to three clips of it, as prediction would."""
    backend, path = task
    with open_video(path, backend, short_side=64) as video:
        clips = sliding_windows(min(video.duration_seconds, 3600.0), 2.0, 2.0)
        for clip in clips[:: max(1, len(clips) // 2)][:3]:
            try:
                frames = video.frames_at(frame_times(clip, 4))
            except EndOfVideoError:
                return
            assert frames.dtype == torch.uint8
            yield tuple(frames.shape)


def decode_all(tasks: list[tuple[str, Path]]) -> dict[tuple[str, Path], list[object]]:
    results: dict[tuple[str, Path], list[object]] = {}
    with WorkerPool(decode_some, **LIMITS) as pool:
        for event in pool.run(tasks):
            results.setdefault(event.task, []).append(event)
    return results


@backends_slow_except("av")
def test_every_odd_file_is_decoded_or_refused(backend: str, shared: Path) -> None:
    folder = shared / "data/odd_videos"
    tasks = [(backend, path) for path in sorted(folder.iterdir()) if path.suffix != ".tsv"]
    assert len(tasks) == 51
    results = decode_all(tasks)
    assert results.keys() == set(tasks)
    assert all(isinstance(events[-1], Finished | Failed) for events in results.values())
    failed = {task[1].name for task, events in results.items() if isinstance(events[-1], Failed)}
    assert failed >= HOPELESS
    if backend == "av":
        assert failed == HOPELESS
        assert all(events[-1].kind == "error" for events in results.values() if len(events) == 1)


def mangle(content: bytes, generator: random.Random) -> bytes:
    """Cut a file off, flip bits in it, or both."""
    kind = generator.choice(("cut", "flip", "flip many", "header", "hole", "both"))
    data = bytearray(content)
    if kind in ("cut", "both"):
        data = data[: generator.randrange(1, len(data))]
    flips = {"flip": 1, "flip many": 200, "header": 20, "both": 20}.get(kind, 0)
    area = min(len(data), 4096) if kind == "header" else len(data)
    for _ in range(flips):
        data[generator.randrange(area)] ^= 1 << generator.randrange(8)
    if kind == "hole":
        start = generator.randrange(len(data))
        data[start : start + 5000] = bytes(len(data[start : start + 5000]))
    return bytes(data)


def decode_mangled(task: tuple[Path, int]) -> Iterator[tuple[int, ...]]:
    """Damage a file by a seed and decode what can be decoded."""
    source, seed = task
    content = mangle(source.read_bytes(), random.Random(seed))
    with tempfile.NamedTemporaryFile(suffix=source.suffix) as file:
        file.write(content)
        file.flush()
        yield from decode_some(("av", Path(file.name)))


def fuzz(sources: list[Path], num_files: int) -> Counter[str]:
    tasks = [(sources[seed % len(sources)], seed) for seed in range(num_files)]
    ended: Counter[str] = Counter()
    with WorkerPool(decode_mangled, **LIMITS) as pool:
        for event in pool.run(tasks):
            if isinstance(event, Finished):
                ended["decoded"] += 1
            elif isinstance(event, Failed):
                ended[event.kind] += 1
    return ended


@pytest.fixture
def sources(shared: Path) -> list[Path]:
    data = shared / "data"
    found = sorted((data / "hmdb51/videos").rglob("*.avi"))
    found += [path for path in (data / "odd_videos").iterdir() if path.stat().st_size < 150_000]
    found += [data / "clips/flipping_a_pancake.mkv", data / "clips/mmaction2_demo.mp4"]
    return sorted(path for path in found if path.suffix != ".tsv" and path.name not in HOPELESS)


def test_some_mangled_files(sources: list[Path]) -> None:
    ended = fuzz(sources, 80)
    assert ended.total() == 80
    assert ended["decoded"] > 20
    assert ended["error"] > 3


@pytest.mark.slow
def test_many_mangled_files_never_crash(sources: list[Path]) -> None:
    fuzz(sources, 20)
    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    handles = process.num_fds()
    ended = fuzz(sources, 240)
    assert ended.total() == 240
    assert ended["timeout"] == 0
    gc.collect()
    assert process.memory_info().rss < before + 50 * 2**20
    assert process.num_fds() <= handles + 2
    assert not [child for child in process.children(True) if child.cpu_percent(0.1) > 50]


def draw_clips(path: Path, num_clips: int) -> None:
    generator = random.Random(0)
    for _ in range(num_clips):
        with open_video(path, "av") as video:
            clip = random_clip(video.duration_seconds, 2.0, generator.random())
            assert video.frames_at(frame_times(clip, 30)).shape[0] == 30


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def test_memory_is_flat_over_600_clips(tmp_path: Path, tiny_video: Callable) -> None:
    path = tiny_video(tmp_path / "a.mp4", num_frames=45, frame_rate=15.0)
    draw_clips(path, 100)
    before = resident_bytes()
    handles = psutil.Process().num_fds()
    draw_clips(path, 500)
    after = resident_bytes()
    assert after < before * 1.05
    assert psutil.Process().num_fds() == handles


@pytest.mark.slow
def test_memory_is_flat_over_clips_of_real_files(shared: Path) -> None:
    paths = sorted((shared / "data/hmdb51/videos").rglob("*.avi"))
    for path in paths:
        draw_clips(path, 10)
    before = resident_bytes()
    for path in paths:
        draw_clips(path, 40)
    after = resident_bytes()
    assert after < before * 1.05


@pytest.mark.parametrize("turned", [False, True])
def test_a_closed_video_leaves_nothing_to_the_garbage_collector(
    turned: bool, tmp_path: Path, shared: Path, tiny_video: Callable
) -> None:
    """Frames that are freed only by the garbage collector make memory grow clip by clip."""
    path = tiny_video(tmp_path / "a.mp4")
    if turned:
        path = shared / "data/odd_videos/torchcodec__nasa_13013_rotated.mp4"
    draw_clips(path, 2)
    gc.collect()
    gc.disable()
    try:
        draw_clips(path, 5)
        left = [one for one in gc.get_objects() if type(one).__name__ == "VideoFrame"]
    finally:
        gc.enable()
    assert not left


def look_at_all(path: Path) -> Iterator[int]:
    """Every second of a film, eight frames at a time."""
    with open_video(path, "av") as video:
        for clip in sliding_windows(video.duration_seconds, 1.0, 1.0):
            yield len(video.frames_at(frame_times(clip, 8)))


def test_memory_is_bounded_by_the_clip_and_not_the_video(tmp_path: Path) -> None:
    """A film of 300 MB of pixels is decoded from end to end by a worker that may use 128 MB."""
    path = tmp_path / "long.mp4"
    picture = np.broadcast_to(np.arange(480, dtype=np.uint8)[:, None, None], (480, 480, 3))
    write_video(path, (np.roll(picture, i, 0) for i in range(450)), frame_rate=30.0, codec="mpeg4")
    with WorkerPool(
        look_at_all, workers=1, timeout_seconds=60.0, memory_limit_bytes=128 * 2**20
    ) as pool:
        events = list(pool.run([path]))
    assert isinstance(events[-1], Finished), events[-1]
    assert len(events) == 15 + 1
