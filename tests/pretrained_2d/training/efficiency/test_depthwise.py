"""Weight gradients of depthwise convolutions by matrix products, against torch's own."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from pretrained_2d.training.efficiency.depthwise import DepthwiseByProducts, DepthwiseFunction

PAIR = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(deadline=None, max_examples=40)
@given(
    taps=st.tuples(st.integers(4, 7), st.integers(4, 7)),
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    stride=PAIR,
    dilation=PAIR,
    has_bias=st.booleans(),
)
def test_gradients_are_those_of_torch(taps, size, stride, dilation, has_bias):
    padding = tuple(gap * (count - 1) // 2 + 1 for gap, count in zip(dilation, taps, strict=True))
    if any(
        length + 2 * pad < gap * (count - 1) + 1
        for length, pad, gap, count in zip(size, padding, dilation, taps, strict=True)
    ):
        return  # the kernel does not fit
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, dtype=torch.float64, generator=generator, requires_grad=True)

    signal, weight = random(2, 3, *size), random(3, 1, *taps)
    leaves = [signal, weight, *([random(3)] if has_bias else [])]
    arguments = (leaves[2] if has_bias else None, stride, padding, dilation)
    expected = functional.conv2d(signal, weight, *arguments, groups=3)
    gradient = torch.randn(expected.shape, dtype=torch.float64, generator=generator)
    with DepthwiseByProducts():
        output = functional.conv2d(signal, weight, *arguments, groups=3)
    assert "DepthwiseFunction" in type(output.grad_fn).__name__
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    for ours, theirs in zip(
        torch.autograd.grad(output, leaves, gradient),
        torch.autograd.grad(expected, leaves, gradient),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (nn.Conv2d(4, 4, 3, groups=4), 8),  # quick in oneDNN
        (nn.Conv2d(4, 8, 5, groups=4), 8),  # two kernels per channel
        (nn.Conv2d(4, 4, 5, groups=2), 8),  # not depthwise
        (nn.Conv2d(4, 4, 5), 8),
        (nn.Conv2d(4, 4, 5, groups=4, padding="same"), 8),
        (nn.Conv2d(4, 4, 5, groups=4), 32),  # too many pairs of positions
        (nn.Conv2d(4, 4, 5, groups=4).requires_grad_(False), 8),
    ],
)
def test_other_convolutions_are_left_to_torch(layer, size):
    with DepthwiseByProducts():
        output = layer(torch.zeros(1, 4, size, size, requires_grad=True))
    assert "DepthwiseFunction" not in type(output.grad_fn).__name__


def test_evaluation_and_autocast_are_left_to_torch(monkeypatch):
    layer, signal = nn.Conv2d(4, 4, 5, groups=4), torch.zeros(1, 4, 8, 8)
    monkeypatch.setattr(DepthwiseFunction, "apply", None)  # calling it would raise
    with DepthwiseByProducts(), torch.no_grad():
        layer(signal)
    with DepthwiseByProducts(), torch.autocast("cpu", dtype=torch.bfloat16):
        layer(signal)


@pytest.mark.parametrize("channels", [1, 2])
def test_groups_left_out_are_one(channels):
    signal, weight = torch.randn(2, channels, 9, 9), torch.randn(channels, channels, 5, 5)
    weight.requires_grad_()
    with DepthwiseByProducts():
        output = functional.conv2d(signal, weight)
    assert ("DepthwiseFunction" in type(output.grad_fn).__name__) == (channels == 1)
    torch.testing.assert_close(output, functional.conv2d(signal, weight), rtol=0, atol=0)
