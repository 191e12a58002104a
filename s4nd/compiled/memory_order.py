"""Where the channels of a signal (batch, channels, *axes) lie in memory."""

from __future__ import annotations

import torch
from torch import Tensor


def channels_lie_last(signal: Tensor) -> bool:
    """Whether a signal (batch, channels, *axes) is (batch, *axes, channels) in memory."""
    return signal.movedim(1, -1).is_contiguous() and not signal.is_contiguous()


def empty_like(signal: Tensor) -> Tensor:
    """With channels last if the signal has them there, else contiguous."""
    return torch.empty_like(signal) if channels_lie_last(signal) else signal.new_empty(signal.shape)


def empty_with_leading_channels(signal: Tensor) -> Tensor:
    """Shaped like the signal, (channels, *axes but the last, batch, last) in memory.

    A tensor of its own: autograd refuses in-place operations on the view that a permutation gives.
    """
    *axes, last = signal.shape[1:]
    strides = signal.new_empty((*axes, len(signal), last)).movedim(-2, 0).stride()
    return signal.new_empty_strided(signal.shape, strides)
