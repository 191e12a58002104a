"""The time limit applies to time without progress, not to the duration of a long video."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from videopipe.dataset.frame_cache import cache_frames, describe_speed
from videopipe.dataset.indexing import Inspection, index_dataset
from videopipe.dataset.manifest import VideoRecord
from videopipe.system.pool import Finished, WorkerPool
from videopipe.video.video import open_video
from videopipe.video.writing import write_video

TIMEOUT_SECONDS = 2.0
NUM_FRAMES = 1500


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise, which decodes slowly. H.264 without a container may be concatenated."""
    folder = tmp_path_factory.mktemp("long")
    random = np.random.default_rng(0)
    frames = (random.integers(0, 256, (360, 480, 3), np.uint8) for _ in range(25))
    write_video(folder / "second.h264", frames, frame_rate=25.0, quality=30)
    content = (folder / "second.h264").read_bytes()
    (folder / "second.h264").unlink()
    (folder / "film.h264").write_bytes(content * (NUM_FRAMES // 25))
    return folder / "film.h264"


def decode_in_one_step(path: Path):
    with open_video(path) as video:
        yield len(video.frames_at([video.duration_seconds - 0.02]))


def test_an_intact_video_may_take_longer_than_the_limit(long_video: Path) -> None:
    # Decoded in one step without any sign of progress, it takes too long.
    with WorkerPool(decode_in_one_step, workers=1, timeout_seconds=TIMEOUT_SECONDS) as pool:
        silent = list(pool.run([long_video]))[-1]
    if isinstance(silent, Finished):
        pytest.skip(f"this machine decodes {NUM_FRAMES} frames in {TIMEOUT_SECONDS:g} s")
    inspection = Inspection(depth="full", workers=1, timeout_seconds=TIMEOUT_SECONDS)
    manifest = index_dataset(long_video.parent, inspection=inspection)
    (record,) = manifest.records
    assert (record.status, record.reason, record.num_frames) == ("ok", "", NUM_FRAMES)
    cached = cache_frames(
        replace(manifest, records=(replace(record, duration_seconds=None),)),
        long_video.parent / "frames",
        short_side=16,
        workers=1,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    assert cached.records[0].frames_path is not None
    with open_video(cached.records[0].frames_path) as video:
        assert video.info.num_frames == NUM_FRAMES


def test_the_cache_reports_a_speedup_only_if_there_is_one() -> None:
    assert describe_speed(0.060, 0.012) == (
        "a clip of 2 s then decodes 5.0 times as fast (12 ms)"
    )  # fmt: skip
    for before, after in ((0.003, 0.003), (0.0031, 0.0029), (0.002, 0.004)):
        words = describe_speed(before, after)
        assert "times as fast" not in words
        assert "`cache: none` saves the space" in words


def test_the_name_of_a_cached_video_takes_any_byte() -> None:
    from videopipe.dataset.frame_cache import cache_name

    names = {cache_name(VideoRecord(path=path)) for path in ("caf\udce9.mp4", "café.mp4")}
    assert len(names) == 2
