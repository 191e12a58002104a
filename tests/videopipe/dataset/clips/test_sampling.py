"""The samplers return the clips of their docstrings, and windows cover the whole video."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from videopipe.dataset.clips.notation import FrameNotation, describe_sampling, parse_notation
from videopipe.dataset.clips.sampling import (
    Clip,
    adjacent_windows,
    dense_clips,
    frame_times,
    random_clip,
    sliding_windows,
)

seconds = st.floats(0.05, 1000.0)


def spans(clips: list[Clip]) -> list[tuple[float, float]]:
    return [(round(clip.start_seconds, 6), round(clip.end_seconds, 6)) for clip in clips]


def test_worked_examples() -> None:
    assert frame_times(Clip(0, 2), 4) == [0.25, 0.75, 1.25, 1.75]
    assert spans(sliding_windows(3.9, 2, 2)) == [(0, 2), (1.9, 3.9)]
    assert spans(sliding_windows(5, 2, 2)) == [(0, 2), (2, 4), (3, 5)]
    assert spans(sliding_windows(4, 2, 2)) == [(0, 2), (2, 4)]
    assert spans(sliding_windows(1.5, 2, 2)) == [(0, 2)]
    assert spans(sliding_windows(5, 2, 1)) == [(0, 2), (1, 3), (2, 4), (3, 5)]
    assert spans(dense_clips(10, 2, 3)) == [(0, 2), (4, 6), (8, 10)]
    assert [random_clip(10, 2, f).start_seconds for f in (0, 0.5, 1)] == [0, 4, 8]
    assert spans(dense_clips(10, 2, 1)) == [(4, 6)]


def test_what_differs_by_rounding_is_the_same() -> None:
    """A remainder below a millisecond gives no further window; a longer one does."""
    for tail, windows in ((-0.0009, 2), (0.0, 2), (0.0009, 2), (0.0011, 3)):
        assert len(adjacent_windows(4 + tail, 2)) == windows
        assert len(sliding_windows(4 + tail, 2, 2)) == windows
        assert len(sliding_windows(2 + tail, 2, 2)) == windows - 1
    assert len(sliding_windows(3.9995, 2, 1)) == 3


@given(seconds, seconds)
def test_adjacent_windows_are_a_grid_that_ends_after_the_video(
    duration: float, window: float
) -> None:
    if duration / window > 2000:
        return
    clips = adjacent_windows(duration, window)
    assert [clip.start_seconds for clip in clips] == [i * window for i in range(len(clips))]
    assert clips[-1].start_seconds < max(duration, 1e-6)
    assert clips[-1].end_seconds == pytest.approx(len(clips) * window)
    assert clips[-1].end_seconds >= duration - 1e-3 - 1e-9 * duration


def test_one_dense_clip_is_in_the_middle() -> None:
    assert spans(dense_clips(10, 2, 1)) == [(4, 6)]
    assert spans(dense_clips(10, 2, 2)) == [(0, 2), (8, 10)]
    assert spans(dense_clips(1, 2, 3)) == [(0, 2)] * 3


@given(seconds, seconds)
def test_windows_cover_the_whole_video(duration: float, clip_seconds: float) -> None:
    if duration / clip_seconds > 2000:
        return
    clips = sliding_windows(duration, clip_seconds, clip_seconds)
    assert clips[0].start_seconds == 0
    assert clips[-1].end_seconds >= duration - 1e-3
    gaps = [b.start_seconds - a.end_seconds for a, b in pairwise(clips)]
    assert all(gap <= 1e-6 for gap in gaps)
    assert all(abs(clip.duration_seconds - clip_seconds) < 1e-6 for clip in clips)
    if duration >= clip_seconds:
        assert clips[-1].end_seconds <= duration + 1e-3


@given(seconds, seconds, st.floats(0, 1), st.integers(1, 64))
def test_frames_of_a_random_clip_are_even_and_inside(
    duration: float, clip_seconds: float, fraction: float, num_frames: int
) -> None:
    clip = random_clip(duration, clip_seconds, fraction)
    times = frame_times(clip, num_frames)
    assert len(times) == num_frames
    assert clip.start_seconds <= times[0]
    assert times[-1] <= clip.end_seconds
    if clip_seconds <= duration:
        assert clip.end_seconds <= duration * (1 + 1e-9) + 1e-9


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="num_frames must be at least 1, got 0"):
        frame_times(Clip(0, 1), 0)
    with pytest.raises(ValueError, match="stride_seconds must be positive"):
        sliding_windows(5, 2, 0)
    with pytest.raises(ValueError, match="longer than 0 s"):
        sliding_windows(0, 2, 2)
    with pytest.raises(ValueError, match="must start at 0 s or later"):
        Clip(-1, 1)


def test_notation_of_mmaction() -> None:
    assert parse_notation("32x2x1") == parse_notation(" 32 × 2 × 1 ") == FrameNotation(32, 2, 1)
    assert parse_notation("8x8") == FrameNotation(8, 8, 1)
    assert str(FrameNotation(8, 8, 10)) == "8x8x10"
    assert FrameNotation(32, 2, 1).clip_seconds(32.0) == 2.0
    assert describe_sampling(30, 2.0, 30.0) == "30 frames over 2 s (30x2x1 at 30 fps)"
    with pytest.raises(ValueError, match="32x2x1"):
        parse_notation("32-2")
    assert describe_sampling(30, 2.0, None) == "30 frames over 2 s"
