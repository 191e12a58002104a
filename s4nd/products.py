"""The products of a depthwise layer of rank one, with their gradient written out.

It computes what the general code of `s4nd.conv` does (a test holds them together) with as few large
tensors as possible: on a CPU, touching fresh memory costs as much as the arithmetic. So the skip is
written where the last product adds to it, or added on the way back to where channels lie last.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s4nd.layouts import channels_lie_last, dots, gather, scatter


class SeparableProduct(torch.autograd.Function):
    """signal (batch, channels, *axes), skip (channels,), one matrix per axis -> like signal.

    The last axis is multiplied from the right; then, from the last but one to the first, each is
    brought behind the channels and multiplied from the left.
    """

    @staticmethod
    def forward(ctx: Any, signal: Tensor, skip: Tensor, *matrices: Tensor) -> Tensor:
        """matrices (channels, size, size), in the order of the axes, at least two."""
        *left, right = matrices
        batch, channels, *others, before, last = signal.shape
        rest = math.prod(others)
        source = len(others) + 1  # where the next axis to be multiplied from the left is
        z = gather(signal.reshape(batch, channels, rest, before, last))
        z = z.view(channels, before, *others, batch, last)
        inputs = [z]
        z = torch.bmm(z.flatten(1, -2), right.mT).view(z.shape)
        for matrix in reversed(left[1:]):
            inputs.append(z)
            z = torch.bmm(matrix, z.flatten(2)).view(z.shape).movedim(source, 1).contiguous()
        inputs.append(z)
        ctx.save_for_backward(skip, *inputs, *matrices)
        flat = signal.reshape(batch, channels, 1, rest * before, last)
        if channels_lie_last(flat):
            z = torch.bmm(left[0], z.flatten(2)).view(channels, rest * before, 1, batch, last)
            return scatter(z, flat, skip).view(signal.shape)
        y = torch.empty_like(z)
        torch.mul(inputs[0].movedim(1, source), _per_channel(skip, z.dim()), out=y)
        y.flatten(2).baddbmm_(left[0], z.flatten(2))
        return y.movedim(-2, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of signal, skip and every matrix."""
        skip, *saved = ctx.saved_tensors
        inputs, (*left, right) = saved[: len(saved) // 2], saved[len(saved) // 2 :]
        batch, channels, *others, before, last = grad.shape
        rest, source = math.prod(others), len(others) + 1
        flat = grad.reshape(batch, channels, 1, rest * before, last)
        mine = gather(flat).view(channels, *others, before, batch, last)
        if mine.data_ptr() == grad.data_ptr():  # nothing had to move; it is overwritten below
            mine = mine.clone()
        g_skip = dots(mine.flatten(1), inputs[0].movedim(1, source).flatten(1))
        g_matrices, g = [], mine
        for index, matrix in enumerate(left):
            if index:
                g = g.movedim(1, source).contiguous()
            g_matrices.append(torch.bmm(g.flatten(2), inputs[-1 - index].flatten(2).mT))
            g = torch.bmm(matrix.mT, g.flatten(2)).view(g.shape)
        rows = g.flatten(1, -2)
        g_matrices.append(torch.bmm(rows.mT, inputs[0].flatten(1, -2)))
        if not ctx.needs_input_grad[0]:
            return None, g_skip, *g_matrices
        torch.bmm(rows, right, out=mine.view(rows.shape))
        product = mine.view(channels, before, rest, batch, last)
        g_signal = scatter(product, grad.reshape(batch, channels, rest, before, last), skip)
        return g_signal.view(grad.shape), g_skip, *g_matrices


def _per_channel(skip: Tensor, dims: int) -> Tensor:
    return skip.view(-1, *[1] * (dims - 1))


class ShiftedRows(torch.autograd.Function):
    """row (..., 2 n - 1) -> matrix (..., n, n) of its windows, the last one first."""

    @staticmethod
    def forward(ctx: Any, row: Tensor) -> Tensor:  # noqa: ARG004
        """Overlapping windows are a view; reversing them is the one copy."""
        size = (row.shape[-1] + 1) // 2
        return row.unfold(-1, size, 1).flip(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG004
        """Sum over diagonals: rows of 2 n entries, read 2 n - 1 at a time, are sheared."""
        size = grad.shape[-1]
        padded = grad.new_zeros(*grad.shape[:-1], 2 * size)
        padded[..., :size] = grad.flip(-2)
        sheared = padded.flatten(-2)[..., : size * (2 * size - 1)]
        return sheared.reshape(*grad.shape[:-1], 2 * size - 1).sum(-2)
