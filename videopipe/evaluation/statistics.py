"""Confidence intervals and tests for accuracies, with videos grouped by recording and repeat.

Clips of one recording are alike, and the repeats of an evaluation (splits, seeds) share videos.
Both carry less information than as many independent videos. Every function here therefore takes the
recording and the repeat of each observation. docs/evaluation.md gives the formulas.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]
Booleans = NDArray[np.bool_]
Names = Sequence[str] | NDArray[Any]  # one per observation


@dataclass(frozen=True)
class Proportion:
    """A share of trials and its confidence interval: `low` <= `value` <= `high`, in [0, 1]."""

    value: float
    low: float
    high: float
    successes: int
    trials: int


def proportion(
    correct: Booleans,
    recordings: Names | None = None,
    repeats: Names | None = None,
    *,
    confidence: float = 0.95,
) -> Proportion:
    """The share of true values and its Wilson score interval, at the effective sample size.

    The value is the mean over the repeats of each repeat's share. Without `recordings`, all
    observations of a repeat are independent. Without observations the value is NaN and the
    interval is [0, 1].
    """
    if correct.size == 0:
        return Proportion(math.nan, 0.0, 1.0, 0, 0)
    sample = effective_sample(correct.astype(float), recordings, repeats)
    low, high = wilson_interval(sample.mean, sample.size, sample.quantile(confidence))
    return Proportion(sample.mean, low, high, int(correct.sum()), correct.size)


def wilson_interval(share: float, trials: float, quantile: float) -> tuple[float, float]:
    """The Wilson score interval; `trials` need not be a whole number."""
    shrink = 1 + quantile**2 / trials
    centre = (share + quantile**2 / (2 * trials)) / shrink
    variance = share * (1 - share) / trials + quantile**2 / (4 * trials**2)
    half = quantile / shrink * math.sqrt(max(variance, 0.0))
    low = 0.0 if share <= 0 else max(0.0, centre - half)
    high = 1.0 if share >= 1 else min(1.0, centre + half)
    return min(low, share), max(high, share)


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same videos; the difference is second minus first."""

    difference: float
    low: float
    high: float
    only_first: int  # observations that only the first model gets right
    only_second: int
    trials: int
    p_value: float  # two-sided
    test: str  # "exact McNemar" or "clustered t"


def compare_paired(
    first: Booleans,
    second: Booleans,
    recordings: Names | None = None,
    repeats: Names | None = None,
    *,
    confidence: float = 0.95,
) -> PairedComparison:
    """Compare which videos two models get right; both arrays list the same videos in order.

    The interval is the adjusted Wald interval of Bonett and Price (2012) at the effective sample
    size. It has a width above 0 also where the models agree on every video. The test is the exact
    McNemar test for independent videos, else a t-test whose p-value is below 1 - `confidence`
    exactly where the interval leaves out 0.
    """
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(
            "a paired comparison needs two equally long arrays of one value per video, got shapes "
            f"{first.shape} and {second.shape}"
        )
    sample = effective_sample(second.astype(float) - first, recordings, repeats)
    better = effective_sample((second & ~first).astype(float), recordings, repeats).mean
    worse = better - sample.mean
    size = sample.size + 2  # one more observation for either model
    gain, loss = (better * sample.size + 1) / size, (worse * sample.size + 1) / size
    error = math.sqrt((gain + loss - (gain - loss) ** 2) / size)
    half = sample.quantile(confidence) * error
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    if sample.independent:
        p_value = mcnemar_p_value(only_first, only_second)
    else:
        p_value = float(2 * stats.t.sf(abs(gain - loss) / error, sample.degrees_of_freedom))
    return PairedComparison(
        difference=sample.mean,
        low=max(-1.0, min(gain - loss - half, sample.mean)),
        high=min(1.0, max(gain - loss + half, sample.mean)),
        only_first=only_first,
        only_second=only_second,
        trials=first.size,
        p_value=p_value,
        test="exact McNemar" if sample.independent else "clustered t",
    )


def mcnemar_p_value(only_first: int, only_second: int) -> float:
    """Two-sided exact McNemar test: a binomial test on the videos where the models disagree."""
    disagreements = only_first + only_second
    if disagreements == 0:
        return 1.0
    return float(stats.binomtest(only_second, disagreements, 0.5).pvalue)


@dataclass(frozen=True)
class EffectiveSample:
    """A mean of grouped observations, and its effective sample size."""

    mean: float
    size: float
    degrees_of_freedom: float  # infinite for independent observations
    independent: bool

    def quantile(self, confidence: float) -> float:
        """Half the width of an interval, in standard errors."""
        return float(stats.t.ppf((1 + confidence) / 2, self.degrees_of_freedom))


def effective_sample(
    values: Floats, recordings: Names | None = None, repeats: Names | None = None
) -> EffectiveSample:
    """The mean over repeats of their means, and its effective sample size.

    The variance of the mean is the sum of two cluster-robust variances, over recordings and over
    repeats. The sum counts the variance that both share twice, so intervals are a little too wide
    rather than too narrow. Degrees of freedom are Satterthwaite's. Where all values are equal, no
    variance can be estimated, and each recording counts as one observation.
    """
    recording = _numbered(recordings, np.arange(len(values)))
    repeat = _numbered(repeats, np.zeros(len(values), dtype=np.int64))
    num_recordings, num_repeats = int(recording.max()) + 1, int(repeat.max()) + 1
    counts = np.bincount(repeat)
    mean = float((np.bincount(repeat, values) / counts).mean())
    weights = 1 / (num_repeats * counts[repeat])  # (observations,), sum 1
    if num_repeats == 1 and num_recordings == len(values):
        return EffectiveSample(mean, float(len(values)), math.inf, independent=True)
    single = float(weights @ (values - mean) ** 2)  # variance of one observation
    if num_recordings == 1 or single == 0:
        return EffectiveSample(mean, float(num_recordings), math.inf, independent=False)
    parts = [_cluster_variance(weights * (values - mean), recording)]
    freedoms = [num_recordings - 1]
    if num_repeats > 1:
        parts.append(_cluster_variance(weights * (values - mean), repeat))
        freedoms.append(num_repeats - 1)
    variance = sum(parts)
    size = len(values) if variance == 0 else min(single / variance, len(values))
    spread_of_parts = sum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True))
    freedom = min(freedoms) if variance == 0 else variance**2 / spread_of_parts
    return EffectiveSample(mean, max(1.0, size), freedom, independent=False)


def _numbered(names: Names | None, otherwise: Integers) -> Integers:
    return otherwise if names is None else np.unique(np.asarray(names), return_inverse=True)[1]


def _cluster_variance(deviations: Floats, cluster: Integers) -> float:
    """Variance of a sum of deviations that may depend on each other within a cluster."""
    sums = np.bincount(cluster, deviations)
    return float((sums**2).sum() * len(sums) / (len(sums) - 1))


def label_ranks(scores: Floats, labels: Integers) -> Integers:
    """How many classes rank before the true one; 0 is the best. Ties go to the lower index."""
    true = np.take_along_axis(scores, labels[:, None], axis=1)  # (videos, 1)
    before = np.arange(scores.shape[1]) < labels[:, None]  # (videos, classes)
    ranks: Integers = ((scores > true) | ((scores == true) & before)).sum(axis=1)
    return ranks


def confusion_matrix(labels: Integers, predicted: Integers, num_classes: int) -> Integers:
    """Counts of videos, (true class, predicted class)."""
    counts = np.bincount(labels * num_classes + predicted, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


@dataclass(frozen=True)
class CalibrationBin:
    """The videos with a confidence in (low, high]: their mean confidence and accuracy."""

    low: float
    high: float
    videos: int
    confidence: float
    accuracy: float


def calibration_bins(confidence: Floats, correct: Booleans, bins: int = 15) -> list[CalibrationBin]:
    """Group videos by confidence into bins of equal width; empty bins are left out."""
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
    """The mean difference between confidence and accuracy, weighted by videos."""
    total = sum(group.videos for group in bins)
    return sum(group.videos * abs(group.confidence - group.accuracy) for group in bins) / total
