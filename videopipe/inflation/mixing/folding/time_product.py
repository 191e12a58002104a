"""Multiplying a folded signal by a matrix over its steps, in any memory layout.

Convolutions on CPU give channels first or channels last, attention gives tokens; copying to
another layout costs more than the product. So the signal is viewed as rows (clips, steps, places,
channels) where channels come last in memory, and as (clips, steps, channels, places) elsewhere.
"""

import math
from typing import Any

import torch
from torch import Tensor

from s4nd import compiled
from s4nd.layer import without_autocast

# Up to this many steps, loops over the signal in place are faster than matrix products.
MOST_STEPS, MOST_STEPS_OF_LARGE, LARGE = 16, 32, 2**23  # one matrix per channel
MOST_STEPS_OF_ONE = 8  # one matrix for all
WIDTH, NARROWEST = 128, 16  # neighbouring numbers, which the loops treat as channels of one matrix


def multiply(matrix: Tensor, folded: Tensor, clips: int, channel_dim: int) -> Tensor:
    """(channels or 1, steps, steps) × (clips × steps × parts, *rest) -> as folded."""
    steps = matrix.shape[-1]
    if channel_dim == 1 and _is_channels_last(folded):
        rows = folded.permute(0, 2, 3, 1)  # a view, contiguous
        return _multiply_rows(matrix, rows, clips, steps).permute(0, 3, 1, 2)
    if channel_dim in (-1, folded.ndim - 1) or matrix.shape[0] == 1:
        return _multiply_rows(matrix, folded, clips, steps)
    after = math.prod(folded.shape[channel_dim + 1 :])
    signal = folded.reshape(clips, steps, -1, folded.shape[channel_dim], after)
    signal = signal.movedim(3, 1)  # (clips, channels, steps, before, after)
    mixed = (matrix @ signal.flatten(3)).view(signal.shape)
    return mixed.movedim(1, 3).reshape(folded.shape)


def _is_channels_last(folded: Tensor) -> bool:
    """A feature map whose channels are neighbours in memory."""
    if folded.ndim != 4 or folded.is_contiguous():
        return False
    return folded.is_contiguous(memory_format=torch.channels_last)


def _multiply_rows(matrix: Tensor, rows: Tensor, clips: int, steps: int) -> Tensor:
    """Rows have their channels last; one matrix for all channels is a single product."""
    if matrix.shape[0] == 1:
        return _multiply_by_one(matrix, rows.reshape(clips, steps, -1)).view(rows.shape)
    signal = rows.reshape(clips, steps, -1, rows.shape[-1])
    if torch.compiler.is_compiling():  # the compiler chooses layouts itself
        return torch.einsum("cts,bspc->btpc", matrix, signal).reshape(rows.shape)
    if _takes_loops(matrix, signal):
        return compiled.step_product(matrix, signal).view(rows.shape)
    return _ProductPerChannel.apply(matrix, signal).view(rows.shape)


def _multiply_by_one(matrix: Tensor, signal: Tensor) -> Tensor:
    """(1, steps, steps) × (clips, steps, all the rest)."""
    if signal.shape[1] <= MOST_STEPS_OF_ONE and not torch.compiler.is_compiling():
        width = math.gcd(signal.shape[-1], WIDTH)
        parts = signal.view(*signal.shape[:2], -1, width)
        if width >= NARROWEST and _takes_loops(matrix, parts):
            return compiled.step_product(matrix.expand(width, -1, -1), parts)
    return matrix[0] @ signal


def _takes_loops(matrix: Tensor, signal: Tensor) -> bool:
    most = MOST_STEPS if signal.numel() < LARGE else MOST_STEPS_OF_LARGE
    return signal.shape[1] <= most and matrix.dtype == signal.dtype and compiled.usable(signal)


class _ProductPerChannel(torch.autograd.Function):
    """(channels, steps, steps) × (clips, steps, places, channels), one product per channel.

    Transposing whole matrices in memory is several times faster than what autograd would do with
    strided products, forward and backward.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, signal: Tensor) -> Tensor:
        """Move channels to the front, multiply, move them back: (rows, channels), not a view.

        Networks may change their input in place, which autograd forbids for views.
        """
        with without_autocast(signal.device.type):
            front = _channels_front(signal)
            ctx.save_for_backward(matrix, front)
            ctx.shape = signal.shape
            return _channels_back(matrix[:, None] @ front)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The transposed product for the signal, the outer product for the matrix."""
        matrix, front = ctx.saved_tensors
        with without_autocast(gradient.device.type):
            gradient = _channels_front(gradient.reshape(ctx.shape))
            for_matrix = (gradient @ front.transpose(-1, -2)).sum(1)
            back = _channels_back(matrix.transpose(-1, -2)[:, None] @ gradient)
            return for_matrix, back.view(ctx.shape)


def _channels_front(signal: Tensor) -> Tensor:
    """(clips, steps, places, channels) -> (channels, clips, steps, places), in memory."""
    channels = signal.shape[-1]
    return signal.reshape(-1, channels).t().contiguous().view(channels, *signal.shape[:-1])


def _channels_back(signal: Tensor) -> Tensor:
    """(channels, clips, steps, places) -> (clips × steps × places, channels), in memory."""
    return signal.reshape(len(signal), -1).t().clone(memory_format=torch.contiguous_format)
