"""The mean over the clips of a video, by plain sums."""

import math

import numpy as np
import pytest

from videopipe.scoring.scores import ClipAverage, ClipOutput

LOGITS = [[0.5, -1.0, 2.0], [3.0, 0.0, -2.0], [-700.0, 1.0, 800.0]]
EMBEDDINGS = [[1.0, 2.0], [5.0, -1.0], [0.0, 8.0]]


def averaged(average: str, *, multi_label: bool, rows: list[list[float]] = LOGITS) -> dict:
    mean = ClipAverage(average, multi_label=multi_label)
    for row, embedding in zip(rows, EMBEDDINGS, strict=False):
        mean.add(ClipOutput(np.array(row, np.float32), np.array(embedding, np.float32)))
    assert mean.num_clips == len(rows)
    return mean.means()


def softmax(row: list[float]) -> list[float]:
    shares = [math.exp(value - max(row)) for value in row]
    return [share / sum(shares) for share in shares]


def sigmoid(row: list[float]) -> list[float]:
    return [1 / (1 + math.exp(-max(value, -700))) for value in row]


def mean_of(rows: list[list[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(("multi_label", "activation"), [(False, softmax), (True, sigmoid)])
def test_logits_or_probabilities_are_averaged(multi_label: bool, activation: object) -> None:
    for average in ("logits", "probabilities"):
        found = averaged(average, multi_label=multi_label)
        if average == "logits":
            expected = activation(mean_of(LOGITS))
        else:
            expected = mean_of([activation(row) for row in LOGITS])
        assert found["probabilities"].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-12)
        assert found["logits"].tolist() == pytest.approx(mean_of(LOGITS), rel=1e-6)
        assert found["embedding"].tolist() == pytest.approx(mean_of(EMBEDDINGS))
        assert {value.dtype for value in found.values()} == {np.dtype(np.float32)}


def test_sums_are_in_double_precision() -> None:
    """In single precision 2^24 + 1 is 2^24."""
    mean = ClipAverage("logits")
    for value in (2.0**24, 1.0, 1.0, 1.0):
        mean.add(ClipOutput(np.array([value, 0.0], np.float32)))
    assert mean.means()["logits"][0] == np.float32((2**24 + 3) / 4)
    assert np.float32((2**24 + 3) / 4) != np.float32(2**24 / 4)
    assert "embedding" not in mean.means()


def test_no_clips_have_no_mean_and_nan_is_not_finite() -> None:
    mean = ClipAverage("logits")
    assert (mean.means(), mean.finite) == ({}, True)
    mean.add(ClipOutput(np.array([1.0, np.nan], np.float32)))
    assert not mean.finite
