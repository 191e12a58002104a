"""Frames folded into the batch, and how layers that mix time unfold them.

A folded tensor is (clips × steps × parts, …): clips outermost, then time, then what a network
splits a frame into (the windows of a Swin transformer, the patches of a MobileViT).
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from videopipe.inflation.mixing.folding.stream_states import StreamStates
from videopipe.inflation.options import Padding


@dataclass
class FoldedBatch:
    """How the batch divides into clips and steps, and the time rate: shared by all layers.

    The network sets it at the start of each forward pass and never clears it, because gradient
    checkpointing runs layers again during the backward pass. `restored_in_backward` sets it to the
    values of the pass that is being differentiated.
    """

    clips: int = 1
    steps: int = 1  # after the first layer; a layer after temporal pooling has fewer
    rate: float = 1.0  # base steps per step
    streaming: StreamStates | None = None  # set while one step of a stream is computed

    def unfold(self, folded: Tensor, reduction: int = 1) -> Tensor:
        """(clips × steps × parts, *rest) -> (clips, steps, all the rest).

        Three dimensions suffice to move values along time; some runtimes take five at most.
        """
        return folded.reshape(self.clips, self.steps // reduction, -1)

    def unfold_channels(self, folded: Tensor, channel_dim: int, reduction: int = 1) -> Tensor:
        """The same with channels apart: (clips, steps, before, channels, after)."""
        channel_dim %= folded.ndim
        after = math.prod(folded.shape[channel_dim + 1 :])
        steps = self.steps // reduction
        return folded.reshape(self.clips, steps, -1, folded.shape[channel_dim], after)


def shifted(signal: Tensor, offset: int, padding: Padding) -> Tensor:
    """(clips, steps, …) with the values of step t + offset at step t, or the padding."""
    if offset == 0:
        return signal
    steps = signal.shape[1]
    offset = max(-steps, min(steps, offset))
    beyond = signal[:, -1:] if offset > 0 else signal[:, :1]
    if padding == "zeros":
        beyond = torch.zeros_like(beyond)
    beyond = beyond.expand(-1, abs(offset), *signal.shape[2:])
    parts = (signal[:, offset:], beyond) if offset > 0 else (beyond, signal[:, :offset])
    return torch.cat(parts, dim=1)


class _RestoreInBackward(torch.autograd.Function):
    """The identity. Its backward runs before that of any layer and restores the batch."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, batch: FoldedBatch) -> Tensor:
        """Save how the batch divides."""
        ctx.batch, ctx.values = batch, (batch.clips, batch.steps, batch.rate)
        return output.clone()  # a view could not be changed in place by the caller

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Restore it before a checkpointed layer runs again."""
        ctx.batch.clips, ctx.batch.steps, ctx.batch.rate = ctx.values
        return gradient, None


def restored_in_backward(output: Tensor, batch: FoldedBatch) -> Tensor:
    """The output; its backward pass first restores the batch to its values of this call.

    Two passes with different batch sizes may precede one backward pass. Layers that are recomputed
    under gradient checkpointing then see the sizes of their own pass. Compiled graphs hold the
    sizes themselves.
    """
    if torch.compiler.is_compiling() or not output.requires_grad:
        return output
    return _RestoreInBackward.apply(output, batch)
