"""Heads over time: shapes, what the order of the frames does to each, and standardisation."""

from typing import get_args

import pytest
import torch

from videopipe.probing.probe_config import HeadConfig, HeadName
from videopipe.probing.temporal_heads import TemporalHead

HEADS = get_args(HeadName)
CHANNELS, STEPS, CLASSES = 6, 8, 3


def head(name: HeadName, **options: object) -> TemporalHead:
    config = HeadConfig(head=name, **{"width": 8, "state": 8} | options)
    return TemporalHead(CHANNELS, STEPS, CLASSES, config).eval()


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("steps", [1, STEPS, 2 * STEPS])
def test_any_number_of_steps_gives_one_row_of_logits_per_clip(name: HeadName, steps: int) -> None:
    model = head(name)
    features = torch.randn(5, CHANNELS, steps)
    assert model(features).shape == (5, CLASSES)
    width = CHANNELS if name == "mean" else 8
    assert model.embed(features).shape == (5, width)
    torch.testing.assert_close(model.classifier(model.embed(features)), model(features))


@pytest.mark.parametrize("name", HEADS)
def test_every_parameter_gets_a_gradient(name: HeadName) -> None:
    model = head(name, layers=2).train()
    model(torch.randn(5, CHANNELS, STEPS)).square().sum().backward()
    without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


@pytest.mark.parametrize("name", HEADS)
def test_only_conv_and_s4nd_see_the_order_of_the_frames(name: HeadName) -> None:
    model = head(name)
    features = torch.randn(4, CHANNELS, STEPS)
    with torch.no_grad():
        there, back = model.embed(features), model.embed(features.flip(-1))
    difference = float((there - back).abs().max() / there.abs().max())
    if name in ("mean", "attentive"):
        assert difference < 1e-5
    else:
        assert difference > 1e-3


def test_s4nd_takes_the_rate_of_twice_the_frame_rate() -> None:
    """With the rate, features sampled twice as densely give nearly the same vector."""
    model = head("s4nd")
    times = torch.arange(2 * STEPS) / (2 * STEPS)
    dense = torch.stack([torch.sin(3 * times + phase) for phase in range(CHANNELS)])[None]
    sparse = dense.view(1, CHANNELS, STEPS, 2).mean(-1)
    base = model.embed(sparse)
    told, untold = model.embed(dense, 0.5), model.embed(dense)
    assert (told - base).norm() < (untold - base).norm()


def test_standardised_features_have_mean_0_and_variance_1() -> None:
    model = head("mean")
    features = torch.randn(200, CHANNELS, STEPS) * 50 + 1000
    model.standardise.mean.copy_(features.mean((0, 2)))
    model.standardise.std.copy_(features.std((0, 2)))
    flat = model.standardise(features).movedim(1, 0).flatten(1)
    torch.testing.assert_close(flat.mean(1), torch.zeros(CHANNELS), rtol=0, atol=1e-4)
    torch.testing.assert_close(flat.std(1), torch.ones(CHANNELS), rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kernel_size": 4}, "kernel_size is 4, expected an odd"),
        ({"state": 7}, "state is 7, expected an even"),
        ({"width": 6}, "attention_heads is 4, expected a divisor of width"),
        ({"dropout": 1.0}, "dropout is 1.0, expected within"),
        ({"layers": 0}, "layers is 0, expected more than 0"),
    ],
)
def test_impossible_heads_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HeadConfig(**options)
