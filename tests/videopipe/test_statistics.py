"""Every statistic against scipy or an independent computation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from videopipe.statistics import (
    calibration_bins,
    compare_paired,
    confusion_matrix,
    expected_calibration_error,
    label_ranks,
    mcnemar_p_value,
    proportion,
    spread,
)


@given(trials=st.integers(1, 5000), share=st.floats(0, 1), confidence=st.floats(0.5, 0.999))
def test_wilson_interval_is_scipys(trials: int, share: float, confidence: float) -> None:
    successes = round(share * trials)
    ours = proportion(successes, trials, confidence)
    theirs = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    assert ours.value == successes / trials
    assert ours.low == pytest.approx(theirs.low, abs=1e-12)
    assert ours.high == pytest.approx(theirs.high, abs=1e-12)
    assert ours.low <= ours.value <= ours.high


def test_wilson_interval_on_the_hmdb51_test_set_is_about_2_4_points() -> None:
    found = proportion(round(0.621 * 1530), 1530)
    assert (found.high - found.low) / 2 == pytest.approx(0.0243, abs=0.0002)


def test_proportion_of_nothing_is_unknown_and_impossible_counts_are_refused() -> None:
    assert math.isnan(proportion(0, 0).value)
    with pytest.raises(ValueError, match="5 of 3"):
        proportion(5, 3)


@given(only_first=st.integers(0, 400), only_second=st.integers(0, 400))
def test_mcnemar_is_the_exact_binomial_test(only_first: int, only_second: int) -> None:
    ours = mcnemar_p_value(only_first, only_second)
    if only_first + only_second == 0:
        assert ours == 1.0
        return
    theirs = stats.binomtest(only_first, only_first + only_second, 0.5).pvalue
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_paired_comparison_interval_is_that_of_resampled_videos() -> None:
    random = np.random.default_rng(3)
    first = random.random(300) < 0.55
    second = np.where(random.random(300) < 0.8, first, random.random(300) < 0.8)
    found = compare_paired(first, second)
    assert found.difference == pytest.approx(second.mean() - first.mean())
    assert found.only_first == sum(a and not b for a, b in zip(first, second, strict=True))
    chosen = random.integers(0, 300, size=(20_000, 300))
    resampled = second[chosen].mean(axis=1) - first[chosen].mean(axis=1)
    low, high = np.quantile(resampled, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.005)
    assert found.high == pytest.approx(high, abs=0.005)
    assert found == compare_paired(first, second), "the same videos give the same interval"


def test_paired_comparison_keeps_its_confidence() -> None:
    """The interval holds the true difference in about 95 of 100 samples."""
    random = np.random.default_rng(5)
    outcome = random.choice(4, p=[0.5, 0.12, 0.2, 0.18], size=(400, 500))
    held = 0
    for row in outcome:
        first, second = (row == 0) | (row == 1), (row == 0) | (row == 2)
        found = compare_paired(first, second, resamples=2000)
        held += found.low <= 0.08 <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_paired_comparison_refuses_other_videos() -> None:
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\)"):
        compare_paired(np.zeros(3, bool), np.zeros(4, bool))


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
    expected = (2 * abs(0.575 - 0.5) + 3 * abs(2.8 / 3 - 2 / 3)) / 5
    assert expected_calibration_error(bins) == pytest.approx(expected)


def test_a_model_that_is_as_right_as_it_says_is_calibrated() -> None:
    random = np.random.default_rng(0)
    confidence = random.uniform(0.2, 1, size=200_000)
    correct = random.random(200_000) < confidence
    assert expected_calibration_error(calibration_bins(confidence, correct)) < 0.005


def test_spread_over_splits() -> None:
    found = spread([0.60, 0.62, 0.67])
    assert (found.mean, found.count) == (pytest.approx(0.63), 3)
    assert found.deviation == pytest.approx(np.std([0.60, 0.62, 0.67], ddof=1))
    assert spread([0.5]).deviation is None
