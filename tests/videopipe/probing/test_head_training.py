"""The data and the validation of a probe, recomputed from the array of features."""

import numpy as np
import pytest
import torch
from torch import nn

from pretrained_2d.randomness import Sample
from videopipe.probing.head_training import FeatureItems, FeatureValidation

VIDEOS, VIEWS, STEPS, CHANNELS = 300, 3, 2, 4
ROWS, LABELS = [5, *range(10, 290)], [n % 3 for n in range(281)]


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(VIDEOS, VIEWS, STEPS, CHANNELS)).astype("float16")


def test_a_view_is_drawn_by_seed_epoch_item_and_repeat(features: np.ndarray) -> None:
    items = FeatureItems(features, ROWS, LABELS, seed=1)

    def view(sample: Sample, data: FeatureItems = items) -> int:
        drawn, label = data[sample]
        assert label == LABELS[sample.item]
        row = features[ROWS[sample.item]].astype(np.float32)  # (views, steps, channels)
        (place,) = (n for n in range(VIEWS) if np.array_equal(row[n].T, drawn.numpy()))
        return place

    assert len(items) == len(ROWS)
    assert view(Sample(2, 1, 0)) == view(Sample(2, 1, 0))
    other = FeatureItems(features, ROWS, LABELS, seed=2)
    for draws in (
        [view(Sample(item)) for item in range(30)],
        [view(Sample(0, epoch)) for epoch in range(30)],
        [view(Sample(0, 0, repeat)) for repeat in range(30)],
    ):
        assert set(draws) == set(range(VIEWS))
    assert [view(Sample(n)) for n in range(9)] != [view(Sample(n), other) for n in range(9)]


def test_validation_is_over_the_mean_logits_of_all_views(features: np.ndarray) -> None:
    torch.manual_seed(0)
    head = nn.Sequential(nn.Flatten(), nn.Linear(STEPS * CHANNELS, 3))
    count = len(ROWS) + 7  # seven videos have no features, and count as mistakes
    with torch.no_grad():
        found = FeatureValidation(features, ROWS, LABELS, count)(head)
    weight, bias = (parameter.detach().double().numpy() for parameter in head[1].parameters())
    views = features[ROWS].astype(np.float64).transpose(0, 1, 3, 2)  # channels before steps
    logits = (views.reshape(len(ROWS), VIEWS, -1) @ weight.T + bias).mean(1)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert found["accuracy"] == pytest.approx((logits.argmax(1) == LABELS).sum() / count)
    own = shares[np.arange(len(ROWS)), LABELS]
    assert found["log_loss"] == pytest.approx(-np.log(own).mean(), rel=1e-5)
