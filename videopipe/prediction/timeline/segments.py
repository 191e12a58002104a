"""Merge the scores of windows into intervals, by smoothing and two thresholds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from videopipe.prediction.timeline.timeline_settings import TimelineSettings

Floats = NDArray[np.float64]
SAME_SECONDS = 1e-6


class Segment(NamedTuple):
    """An interval of a video with one label; the score is the mean over the interval."""

    start_seconds: float
    end_seconds: float
    label: str
    score: float


def find_segments(
    starts: Sequence[float],
    ends: Sequence[float],
    scores: Floats,
    labels: Sequence[str],
    settings: TimelineSettings,
    shots: Sequence[int] | None = None,
) -> list[Segment]:
    """The intervals of one video; `scores` are (windows, classes), windows in order of time.

    The scores at a time are those of the window with the nearest centre; the first and the last
    window extend to the ends of the video. Two windows without overlap meet in the middle between
    them. `shots` numbers the shots of the windows: nothing is smoothed across a cut.
    """
    if not len(starts):
        return []
    centres = (np.asarray(starts) + np.asarray(ends)) / 2
    apart = np.asarray(ends)[:-1] <= np.asarray(starts)[1:] + SAME_SECONDS
    gaps = (np.asarray(ends)[:-1] + np.asarray(starts)[1:]) / 2
    middles = np.where(apart, gaps, (centres[1:] + centres[:-1]) / 2)
    bounds = np.concatenate(([starts[0]], middles, [max(ends)]))  # (windows + 1,)
    shot = np.zeros(len(starts), int) if shots is None else np.asarray(shots)
    smooth = _smoothed(centres, scores, settings.smooth_seconds or 0.0, shot)
    best = smooth.argmax(1)
    height = smooth.max(1)
    kind = np.where(height >= settings.off, best, -1)
    cuts = np.flatnonzero(np.diff(kind)) + 1
    found = []
    for first, last in zip([0, *cuts], [*cuts, len(kind)], strict=True):
        seconds = np.diff(bounds[first : last + 1])
        if kind[first] < 0 or height[first:last].max() < settings.on:
            continue
        if seconds.sum() <= 0 or seconds.sum() < settings.min_seconds:
            continue
        score = float((height[first:last] * seconds).sum() / seconds.sum())
        times = float(bounds[first]), float(bounds[last])
        found.append(Segment(*times, labels[int(kind[first])], round(score, 6)))
    return found


def _smoothed(centres: Floats, scores: Floats, seconds: float, shot: NDArray[np.int64]) -> Floats:
    """A mean with triangular weights; one window for `seconds` of 0."""
    if seconds == 0:
        return scores
    smooth = np.empty_like(scores, np.float64)
    reach = seconds / 2
    first = np.maximum(np.searchsorted(centres, centres - reach), np.searchsorted(shot, shot))
    last = np.minimum(
        np.searchsorted(centres, centres + reach, side="right"),
        np.searchsorted(shot, shot, side="right"),
    )
    for number, centre in enumerate(centres):
        near = slice(first[number], last[number])
        weights = 1 - np.abs(centres[near] - centre) / reach
        smooth[number] = weights @ scores[near] / weights.sum()
    return smooth
