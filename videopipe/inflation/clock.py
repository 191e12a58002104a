"""Folded time: the frames of all clips lie in the batch, and layers that mix time unfold them.

A folded tensor is (clips × steps × parts, …): batch outermost, then time, then whatever a network
splits a frame into (windows of a Swin transformer, patches of a MobileViT).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class Clock:
    """What the folded layers of one network share: how the batch divides, and the time rate.

    It is set at the start of each forward pass and never cleared, so that gradient checkpointing
    may run layers again; `remember` sets it back for the pass that is being differentiated.
    """

    clips: int = 1
    steps: int = 1  # behind the first layer; a layer behind temporal pooling has fewer
    rate: float = 1.0  # base steps per step

    def unfold(self, folded: Tensor, reduction: int = 1) -> Tensor:
        """(clips × steps × parts, *rest) -> (clips, steps, parts, *rest)."""
        steps = self.steps // reduction
        return folded.reshape(self.clips, steps, -1, *folded.shape[1:])


class _Remember(torch.autograd.Function):
    """The identity; its backward runs first and tells the clock which pass is differentiated."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, clock: Clock) -> Tensor:
        """Note how the clock stands."""
        ctx.clock, ctx.state = clock, (clock.clips, clock.steps, clock.rate)
        return output.clone()  # a view could not be changed in place by the caller

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Set the clock back before any checkpointed layer runs again."""
        ctx.clock.clips, ctx.clock.steps, ctx.clock.rate = ctx.state
        return gradient, None


def remember(output: Tensor, clock: Clock) -> Tensor:
    """The output, with a note for its backward pass.

    Two passes with different batch sizes may precede one backward pass; layers recomputed under
    gradient checkpointing then still see the right division. Compiled graphs hold the sizes
    themselves.
    """
    if torch.compiler.is_compiling() or not output.requires_grad:
        return output
    return _Remember.apply(output, clock)
