"""Cuts are found where clips were glued together, and nowhere else."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from videopipe.video.cuts import SHORT_SIDE_PIXELS, cut_places, find_cuts
from videopipe.video.video import open_video
from videopipe.video.writing import write_video

SHARED = Path(
    os.environ.get("VIDEOPIPE_SHARED", Path(__file__).resolve().parents[4] / "shared")
) / "data"  # fmt: skip
RATE = 25.0
SHOT_SECONDS = 2.0


def test_a_cut_stands_out_from_its_neighbours() -> None:
    distances = torch.full((60,), 0.05)
    distances[20] = 0.8
    assert cut_places(distances) == [20]
    distances[21] = 0.7  # a flash: there and back
    assert cut_places(distances) == []
    distances[20:22] = 0.29
    assert cut_places(distances) == []  # too small
    assert cut_places(torch.linspace(0.3, 0.6, 60)) == []  # a dissolve, or fast motion
    assert cut_places(torch.zeros(0)) == []


def film(*levels: int, seconds: float = 1.0) -> Iterator[np.ndarray]:
    """Shots of noise around a level of grey."""
    random = np.random.default_rng(0)
    for level in levels:
        for _ in range(round(seconds * RATE)):
            yield random.integers(level, level + 8, (48, 64, 3), dtype=np.uint8)


def test_cuts_are_times_of_the_video_also_in_a_range(tmp_path: Path) -> None:
    write_video(tmp_path / "film.mp4", film(0, 100, 200, seconds=2.0), frame_rate=RATE)
    with open_video(tmp_path / "film.mp4", short_side=SHORT_SIDE_PIXELS) as video:
        assert find_cuts(video, 0.0, video.duration_seconds) == pytest.approx([2.0, 4.0], abs=0.001)
        assert find_cuts(video, 1.0, 3.0) == pytest.approx([2.0], abs=0.001)
        assert find_cuts(video, 0.0, 6.0, max_seconds=0.0) is None


def real_clips() -> list[Path]:
    clips = sorted((SHARED / "clips").glob("*.*")) + sorted(
        (SHARED / "hmdb51/videos").rglob("*.avi")
    )
    return [path for path in clips if path.suffix in (".mp4", ".avi", ".mkv")]


def frames_of(path: Path) -> torch.Tensor:
    """Two seconds or less from the middle of a clip, at one size and rate."""
    with open_video(path, short_side=120) as video:
        seconds = min(SHOT_SECONDS, video.duration_seconds)
        start = (video.duration_seconds - seconds) / 2
        times = [start + (number + 0.5) / RATE for number in range(int(seconds * RATE))]
        frames = video.frames_at(times).float()
    sized = functional.interpolate(frames, (120, 160), mode="bilinear", antialias=True)
    return sized.round().byte().permute(0, 2, 3, 1)  # (time, height, width, 3)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs real clips")
def test_boundary_error_on_glued_real_clips(tmp_path: Path) -> None:
    shots = [frames_of(path) for path in real_clips()]
    write_video(tmp_path / "glued.mp4", torch.cat(shots).numpy(), frame_rate=RATE)
    expected = np.cumsum([len(shot) for shot in shots])[:-1] / RATE
    with open_video(tmp_path / "glued.mp4", short_side=SHORT_SIDE_PIXELS) as video:
        found = find_cuts(video, 0.0, video.duration_seconds)
    assert found is not None
    errors = [min(abs(cut - one) for one in found) for cut in expected]
    extra = [one for one in found if min(abs(expected - one)) > 1 / RATE]
    right = [error for error in errors if error <= 1 / RATE]
    print(f"{len(right)} of {len(expected)} cuts, {len(extra)} others at {extra}; largest error of")
    print(f"those found {max(right):.3f} s; all errors {[round(error, 3) for error in errors]}")
    assert len(right) == len(expected)
    assert not extra
    assert max(right) <= 0.001  # the frame itself
