"""How sure a number is: intervals, paired comparisons and calibration, on counts and scores.

Everything here is arithmetic on arrays; nothing knows about videos or files.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True)
class Proportion:
    """A share of trials with its Wilson interval: `value` in [`low`, `high`], all in [0, 1]."""

    value: float
    low: float
    high: float
    successes: int
    trials: int


def proportion(successes: int, trials: int, confidence: float = 0.95) -> Proportion:
    """The share of successes and its Wilson score interval, sound also near 0 and 1.

    With no trials nothing is known: the value is NaN and the interval is [0, 1].
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"expected 0 <= successes <= trials, got {successes} of {trials}")
    if trials == 0:
        return Proportion(math.nan, 0.0, 1.0, 0, 0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    shrink = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return Proportion(share, low, high, successes, trials)


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same videos: the difference second − first, and whether it is chance."""

    difference: float
    low: float  # of the difference, by resampling the videos
    high: float
    only_first: int  # videos that only the first model gets right
    only_second: int
    trials: int
    p_value: float  # exact McNemar, two-sided


def compare_paired(
    first: Booleans, second: Booleans, *, confidence: float = 0.95, resamples: int = 20_000
) -> PairedComparison:
    """Compare which videos two models get right; the arrays speak of the same videos in order.

    Resampling videos only changes how many fall into each of three outcomes (only the first right,
    only the second, no difference), so the bootstrap draws these three counts.
    """
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(
            "a paired comparison needs two equally long arrays of one value per video, got shapes "
            f"{first.shape} and {second.shape}"
        )
    trials = int(first.size)
    only_first = int((first & ~second).sum())
    only_second = int((~first & second).sum())
    shares = np.array([only_first, only_second, trials - only_first - only_second]) / trials
    drawn = np.random.default_rng(0).multinomial(trials, shares, size=resamples)
    tail = (1 - confidence) / 2
    low, high = np.quantile((drawn[:, 1] - drawn[:, 0]) / trials, [tail, 1 - tail])
    return PairedComparison(
        difference=(only_second - only_first) / trials,
        low=float(low),
        high=float(high),
        only_first=only_first,
        only_second=only_second,
        trials=trials,
        p_value=mcnemar_p_value(only_first, only_second),
    )


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    """Two-sided exact McNemar test: could a fair coin have split the disagreements like this?"""
    disagreements = only_first + only_second
    smaller = min(only_first, only_second)
    if 2 * smaller == disagreements:
        return 1.0
    tail = sum(math.comb(disagreements, count) for count in range(smaller + 1))
    return min(1.0, 2 * tail / 2**disagreements)  # whole numbers until the division: exact


def label_ranks(scores: Floats, labels: Integers) -> Integers:
    """How many classes come before the true one (0: the best); ties go to the lower index."""
    order = np.argsort(-scores, axis=1, kind="stable")  # (videos, classes)
    return np.argmax(order == labels[:, None], axis=1)


def confusion_matrix(labels: Integers, predicted: Integers, num_classes: int) -> Integers:
    """Counts of videos, (true class, predicted class)."""
    counts = np.bincount(labels * num_classes + predicted, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


@dataclass(frozen=True)
class CalibrationBin:
    """The videos whose confidence lies in (low, high]: how sure the model was, how often right."""

    low: float
    high: float
    videos: int
    confidence: float
    accuracy: float


def calibration_bins(confidence: Floats, correct: Booleans, bins: int = 15) -> list[CalibrationBin]:
    """Group videos by confidence in equal steps; empty groups are left out."""
    index = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    found = []
    for bin_index in np.unique(index):
        inside = index == bin_index
        found.append(
            CalibrationBin(
                low=float(bin_index / bins),
                high=float((bin_index + 1) / bins),
                videos=int(inside.sum()),
                confidence=float(confidence[inside].mean()),
                accuracy=float(correct[inside].mean()),
            )
        )
    return found


def expected_calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """The mean gap between confidence and accuracy, weighted by videos."""
    total = sum(group.videos for group in bins)
    return sum(group.videos * abs(group.confidence - group.accuracy) for group in bins) / total


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation over repetitions (splits, seeds)."""

    mean: float
    deviation: float | None  # None for a single repetition: a spread of one is not known
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Mean and spread of repeated measurements."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(float(np.mean(values)), deviation, len(values))
