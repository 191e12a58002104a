"""Every statistic against scipy or an independent computation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from videopipe.evaluation.statistics import (
    calibration_bins,
    compare_paired,
    confusion_matrix,
    effective_sample,
    expected_calibration_error,
    label_ranks,
    mcnemar_p_value,
    proportion,
)


def share(successes: int, trials: int) -> np.ndarray:
    return np.arange(trials) < successes


@given(trials=st.integers(1, 5000), part=st.floats(0, 1), confidence=st.floats(0.5, 0.999))
def test_wilson_interval_is_scipys(trials: int, part: float, confidence: float) -> None:
    successes = round(part * trials)
    ours = proportion(share(successes, trials), confidence=confidence)
    theirs = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    assert ours.value == pytest.approx(successes / trials)
    assert ours.low == pytest.approx(theirs.low, abs=1e-9)
    assert ours.high == pytest.approx(theirs.high, abs=1e-9)
    assert ours.low <= ours.value <= ours.high


def test_wilson_interval_on_the_hmdb51_test_set_is_about_2_4_points() -> None:
    found = proportion(share(round(0.621 * 1530), 1530))
    assert (found.high - found.low) / 2 == pytest.approx(0.0243, abs=0.0002)


def test_proportion_of_nothing_is_unknown() -> None:
    found = proportion(np.zeros(0, bool))
    assert math.isnan(found.value)
    assert (found.low, found.high) == (0, 1)


def test_videos_that_always_agree_within_a_recording_count_as_one() -> None:
    recordings = np.repeat(np.arange(20), 6).astype(str)
    right = np.repeat(share(12, 20), 6)
    together, apart = proportion(right, recordings), proportion(share(12, 20))
    assert together.value == apart.value
    # 20 recordings: t with 19 degrees of freedom, and 20/19 of the variance.
    assert together.high - together.low >= apart.high - apart.low
    assert together.high - together.low < 1.2 * (apart.high - apart.low)
    assert together.high - together.low > 2 * (proportion(right).high - proportion(right).low)


def test_one_recording_gives_a_wide_interval_and_unanimous_recordings_count_once() -> None:
    one = proportion(share(8, 10), ["a"] * 10)
    assert one.high - one.low > 0.7
    unanimous = proportion(np.ones(100, bool), [str(i // 10) for i in range(100)])
    assert unanimous.low == pytest.approx(proportion(np.ones(10, bool)).low)


@given(only_first=st.integers(0, 400), only_second=st.integers(0, 400))
def test_mcnemar_by_binomial_coefficients(only_first: int, only_second: int) -> None:
    count, smaller = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(count, number) for number in range(smaller + 1))
    expected = min(1.0, 2 * tail / 2**count)
    assert mcnemar_p_value(only_first, only_second) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_with_many_disagreements() -> None:
    z = (21_300 - 20_700 - 1) / math.sqrt(42_000)
    assert mcnemar_p_value(21_300, 20_700) == pytest.approx(2 * stats.norm.sf(z), rel=0.01)


def test_paired_interval_of_many_videos_is_that_of_resampled_videos() -> None:
    random = np.random.default_rng(3)
    first = random.random(300) < 0.55
    second = np.where(random.random(300) < 0.8, first, random.random(300) < 0.8)
    found = compare_paired(first, second)
    assert found.difference == pytest.approx(second.mean() - first.mean())
    assert found.only_first == sum(a and not b for a, b in zip(first, second, strict=True))
    assert found.test == "exact McNemar"
    chosen = random.integers(0, 300, size=(20_000, 300))
    resampled = second[chosen].mean(axis=1) - first[chosen].mean(axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.01)
    assert found.high == pytest.approx(high, abs=0.01)


def test_without_any_disagreement_the_interval_is_not_a_point() -> None:
    right = share(20, 30)
    found = compare_paired(right, right)
    assert (found.difference, found.p_value) == (0, 1)
    assert -0.15 < found.low < -0.05 < 0.05 < found.high < 0.15


def test_paired_comparison_refuses_other_videos() -> None:
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\)"):
        compare_paired(np.zeros(3, bool), np.zeros(4, bool))
    with pytest.raises(ValueError, match=r"\(0,\) and \(0,\)"):
        compare_paired(np.zeros(0, bool), np.zeros(0, bool))
    with pytest.raises(ValueError, match=r"\(2, 2\) and \(2, 2\)"):
        compare_paired(np.zeros((2, 2), bool), np.zeros((2, 2), bool))
    one = compare_paired(np.array([False]), np.array([True]))
    assert (one.difference, one.trials, one.p_value) == (1.0, 1, 1.0)


def test_paired_interval_of_independent_videos_is_bonett_and_price() -> None:
    """One video is added that only the first model gets right, and one for the second."""
    first, second = share(11, 24), np.roll(share(15, 24), -3)
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    gain, loss = (only_second + 1) / 26, (only_first + 1) / 26
    half = stats.norm.ppf(0.95) * math.sqrt((gain + loss - (gain - loss) ** 2) / 26)
    found = compare_paired(first, second, confidence=0.9)
    assert (found.only_first, found.only_second, found.trials) == (only_first, only_second, 24)
    assert found.low == pytest.approx(gain - loss - half, abs=1e-12)
    assert found.high == pytest.approx(gain - loss + half, abs=1e-12)


def plain_sample(values: list[float], recordings: list[str], repeats: list[str]) -> tuple:
    """Mean, effective size and degrees of freedom by the sums of docs/evaluation.md."""
    by_repeat = {name: [v for v, r in zip(values, repeats, strict=True) if r == name]
                 for name in repeats}  # fmt: skip
    mean = sum(sum(own) / len(own) for own in by_repeat.values()) / len(by_repeat)
    weights = [1 / len(by_repeat) / len(by_repeat[name]) for name in repeats]
    deviations = [w * (v - mean) for w, v in zip(weights, values, strict=True)]
    one = sum(w * (v - mean) ** 2 for w, v in zip(weights, values, strict=True))
    variances, freedoms = [], []
    for names in (recordings, repeats):
        groups = sorted(set(names))
        if len(groups) > 1:
            sums = [sum(u for u, n in zip(deviations, names, strict=True) if n == group)
                    for group in groups]  # fmt: skip
            variances.append(len(groups) / (len(groups) - 1) * sum(x**2 for x in sums))
            freedoms.append(len(groups) - 1)
    total = sum(variances)
    freedom = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    return mean, max(1.0, min(one / total, len(values))), freedom


@pytest.mark.parametrize("num_repeats", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_clustered_intervals_by_hand(seed: int, num_repeats: int) -> None:
    random = np.random.default_rng(seed)
    count = 30
    recordings = [f"r{number}" for number in random.integers(0, 9, count)]
    repeats = [f"s{number}" for number in random.integers(0, num_repeats, count)]
    first, second = random.random(count) < 0.6, random.random(count) < 0.75

    mean, size, freedom = plain_sample(second.astype(float).tolist(), recordings, repeats)
    found = effective_sample(second.astype(float), recordings, repeats)
    assert (found.mean, found.size, found.degrees_of_freedom, found.independent) == (
        pytest.approx(mean), pytest.approx(size), pytest.approx(freedom), False,
    )  # fmt: skip
    t = stats.t.ppf(0.975, freedom)
    edges = sorted(np.roots([1 + t**2 / size, -(2 * mean + t**2 / size), mean**2]).real)
    accuracy = proportion(second, recordings, repeats)
    # Wilson: where the distance to the share is t standard errors of the edge itself.
    assert (accuracy.low, accuracy.high) == pytest.approx(tuple(edges), abs=1e-9)
    assert (accuracy.successes, accuracy.trials) == (int(second.sum()), count)

    differences = (second.astype(float) - first).tolist()
    mean, size, freedom = plain_sample(differences, recordings, repeats)
    better, *_ = plain_sample((second & ~first).astype(float).tolist(), recordings, repeats)
    gain, loss = (better * size + 1) / (size + 2), ((better - mean) * size + 1) / (size + 2)
    error = math.sqrt((gain + loss - (gain - loss) ** 2) / (size + 2))
    paired = compare_paired(first, second, recordings, repeats)
    half = stats.t.ppf(0.975, freedom) * error
    assert paired.difference == pytest.approx(mean)
    assert paired.low == pytest.approx(min(gain - loss - half, mean), abs=1e-9)
    assert paired.high == pytest.approx(max(gain - loss + half, mean), abs=1e-9)
    expected = 2 * (1 - stats.t.cdf(abs(gain - loss) / error, freedom))
    assert paired.p_value == pytest.approx(expected, abs=1e-9)
    assert paired.test == "clustered t"


def test_effective_sample_sizes_at_the_limits() -> None:
    """Two unanimous recordings count once each; equal recordings count every video."""
    two = effective_sample(np.array([1.0, 1, 1, 0, 0, 0]), list("aaabbb"))
    assert (two.mean, two.size, two.degrees_of_freedom) == (0.5, 1.0, 1.0)
    alike = effective_sample(np.array([1.0, 0, 1, 0, 1, 0]), list("aabbcc"))
    assert (alike.mean, alike.size, alike.degrees_of_freedom) == (0.5, 6.0, 2)
    both = effective_sample(np.array([1.0, 0, 1, 0, 1, 0]), list("aabbcc"), list("112233"))
    assert (both.size, both.degrees_of_freedom) == (6.0, 2)
    assert not two.independent
    assert not alike.independent


def test_ranks_give_top_k_and_ties_go_to_the_lower_index() -> None:
    scores = np.array([[0.1, 0.7, 0.2], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0]])
    assert label_ranks(scores, np.array([2, 1, 2])).tolist() == [1, 1, 0]
    assert label_ranks(scores, np.array([1, 0, 0])).tolist() == [0, 0, 1]


def test_confusion_matrix_counts_every_video_once() -> None:
    labels, predicted = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 2, 0])
    found = confusion_matrix(labels, predicted, 4)
    assert found.tolist() == [[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]


def test_calibration_error_by_hand() -> None:
    confidence = np.array([0.95, 0.85, 0.55, 0.6, 1.0])
    correct = np.array([True, False, True, False, True])
    bins = calibration_bins(confidence, correct, bins=5)
    # (0.4, 0.6]: 0.55 and 0.6, half right; (0.8, 1]: 0.95, 0.85 and 1.0, two of three right.
    assert [(group.videos, group.accuracy) for group in bins] == [(2, 0.5), (3, 2 / 3)]
    assert [(group.low, group.high) for group in bins] == [(0.4, 0.6), (0.8, 1.0)]
    assert [group.confidence for group in bins] == pytest.approx([0.575, 2.8 / 3])
    expected = (2 * abs(0.575 - 0.5) + 3 * abs(2.8 / 3 - 2 / 3)) / 5
    assert expected_calibration_error(bins) == pytest.approx(expected)


def test_a_model_that_is_as_right_as_it_says_is_calibrated() -> None:
    random = np.random.default_rng(0)
    confidence = random.uniform(0.2, 1, size=200_000)
    correct = random.random(200_000) < confidence
    assert expected_calibration_error(calibration_bins(confidence, correct)) < 0.005
