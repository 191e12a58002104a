import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videopipe.prediction.timeline.segments import find_segments
from videopipe.prediction.timeline.timeline_settings import TimelineSettings

LABELS = ("a", "b", "c")
EXACT = TimelineSettings(smooth_seconds=0.0)


def windows(*best: tuple[int, float]) -> tuple[list[float], list[float], np.ndarray]:
    """Windows of two seconds, one second apart: class and its probability; the rest is shared."""
    starts = [float(number) for number in range(len(best))]
    scores = np.array([[(1 - p) / 2] * 3 for _, p in best])
    for number, (kind, p) in enumerate(best):
        scores[number, kind] = p
    return starts, [start + 2 for start in starts], scores


def test_a_change_lies_in_the_middle_between_the_centres():
    found = find_segments(*windows((0, 0.9), (0, 0.7), (1, 0.8), (1, 0.8)), LABELS, EXACT)
    assert [segment[:3] for segment in found] == [(0.0, 2.5, "a"), (2.5, 5.0, "b")]
    # The first window covers 1.5 s (from the start of the video), the second one second.
    assert found[0].score == pytest.approx((0.9 * 1.5 + 0.7 * 1.0) / 2.5)


def test_an_interval_reaches_on_and_stays_above_off():
    scores = windows((0, 0.4), (0, 0.6), (0, 0.4), (0, 0.35), (1, 0.45), (2, 0.36))
    found = find_segments(*scores, LABELS, TimelineSettings(smooth_seconds=0, on=0.5, off=0.38))
    assert [segment[:3] for segment in found] == [(0.0, 3.5, "a")]


def test_short_intervals_are_left_out():
    scores = windows((0, 0.9), (0, 0.9), (1, 0.9), (0, 0.9), (0, 0.9))
    settings = TimelineSettings(smooth_seconds=0, min_seconds=1.5)
    found = find_segments(*scores, LABELS, settings)
    assert [segment[:3] for segment in found] == [(0.0, 2.5, "a"), (3.5, 6.0, "a")]
    as_long = TimelineSettings(smooth_seconds=0, min_seconds=2.5)
    assert len(find_segments(*scores, LABELS, as_long)) == 2


def test_smoothing_removes_one_wrong_window():
    scores = windows((0, 0.9), (0, 0.9), (1, 0.6), (0, 0.9), (0, 0.9))
    found = find_segments(*scores, LABELS, TimelineSettings(smooth_seconds=4))
    assert [segment[:3] for segment in found] == [(0.0, 6.0, "a")]
    # Weights of the window in the middle: itself 1, its neighbours a half each.
    smooth = (0.2 * 1 + 0.9 * 0.5 * 2) / 2
    others = [(0.9 + 0.45) / 1.5, (0.9 * 1.5 + 0.2 * 0.5) / 2, smooth, (1.35 + 0.1) / 2, 0.9]
    assert found[0].score == pytest.approx((others[0] * 1.5 + sum(others[1:4]) + 0.9 * 1.5) / 6)


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0.34, 1.0)), max_size=30), st.floats(0, 6))
def test_intervals_are_ordered_and_inside_the_video(best, smooth_seconds):
    starts, ends, scores = windows(*best)
    scores = scores.reshape(-1, 3)
    settings = TimelineSettings(smooth_seconds=smooth_seconds)
    found = find_segments(starts, ends, scores, LABELS, settings)
    times = [time for segment in found for time in segment[:2]]
    assert times == sorted(times)
    assert all(0 <= time <= len(best) + 1 for time in times)
    assert all(settings.off <= segment.score <= 1 + 1e-9 for segment in found)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"on": 0.2}, "the thresholds are on 0.2 and off 0.3; expected 0 < off ≤ on ≤ 1"),
        ({"smooth_seconds": -1.0}, "smooth_seconds is -1.0; expected 0 or more seconds"),
    ],
)
def test_settings_that_make_no_sense(values, message):
    with pytest.raises(ValueError, match=message):
        TimelineSettings(**({"smooth_seconds": 0.0} | values))


def test_a_change_lies_at_a_cut_and_nothing_is_smoothed_across_it():
    # Two shots, of five seconds and of one: the last window is cut short by the end of its shot.
    starts, ends = [0.0, 1.5, 3.0, 5.0], [2.0, 3.5, 5.0, 6.0]
    scores = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.0, 1.0]])
    settings = TimelineSettings(smooth_seconds=10)
    found = find_segments(starts, ends, scores, LABELS, settings, shots=[0, 0, 0, 1])
    assert [segment[:3] for segment in found] == [(0.0, 5.0, "a"), (5.0, 6.0, "b")]
    assert [segment.score for segment in found] == pytest.approx([0.9, 1.0])
    smooth = find_segments(starts, ends, scores, LABELS, settings)
    assert smooth[0].score < 0.9


def test_windows_that_touch_meet_where_they_touch():
    ends = [0.1 + 0.2, 1.3]  # the sum is above 0.3
    found = find_segments([0.0, 0.3], ends, np.array([[0.9, 0.1], [0.1, 0.9]]), LABELS, EXACT)
    assert found[0].end_seconds == found[1].start_seconds == pytest.approx(0.3)
