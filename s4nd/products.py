"""The products of a depthwise layer of rank one, with their gradient written out.

It computes what the general code of `s4nd.conv` does (a test holds them together) with as few large
tensors as possible: the skip is written where the last product adds to it, the gradient of the
signal where the incoming gradient lay. On a CPU, touching fresh memory costs as much as the
arithmetic.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CACHE_BYTES = 2**20  # of a signal that is brought into another order at a time


class SeparableProduct(torch.autograd.Function):
    """x (channels, first, ..., batch, last), skip (channels,), one matrix per axis -> like x.

    The last axis is multiplied from the right; then, from the last but one to the first, each is
    brought behind the channels and multiplied from the left.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, skip: Tensor, *matrices: Tensor) -> Tensor:
        """matrices (channels, size, size), in the order of the axes, at least two."""
        *left, right = matrices
        source = x.dim() - 3  # where the next axis to be multiplied from the left is
        z = _contiguous(x.movedim(source, 1))
        inputs = [z]
        z = torch.bmm(z.flatten(1, -2), right.mT).view(z.shape)
        for matrix in reversed(left[1:]):
            inputs.append(z)
            z = torch.bmm(matrix, z.flatten(2)).view(z.shape).movedim(source, 1).contiguous()
        inputs.append(z)
        base = inputs[0] if len(left) == 1 else x
        y = torch.empty_like(base, memory_format=torch.contiguous_format)
        torch.mul(base, _per_channel(skip, x.dim()), out=y)
        y.flatten(2).baddbmm_(left[0], z.flatten(2))
        ctx.save_for_backward(base, skip, *inputs, *matrices)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of x, skip and every matrix."""
        base, skip, *rest = ctx.saved_tensors
        inputs, (*left, right) = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        source = base.dim() - 3
        # It is overwritten below, so it must be ours; a gradient in another layout is copied
        # anyway.
        grad = grad.clone() if grad.is_contiguous() else _contiguous(grad)
        g_skip = torch.bmm(grad.flatten(1)[:, None], base.reshape(len(base), -1, 1)).flatten()
        g_matrices, g = [], grad
        for index, matrix in enumerate(left):
            if index:
                g = g.movedim(1, source).contiguous()
            g_matrices.append(torch.bmm(g.flatten(2), inputs[-1 - index].flatten(2).mT))
            g = torch.bmm(matrix.mT, g.flatten(2)).view(g.shape)
        rows = g.flatten(1, -2)
        g_matrices.append(torch.bmm(rows.mT, inputs[0].flatten(1, -2)))
        if not ctx.needs_input_grad[0]:
            return None, g_skip, *g_matrices
        grad.mul_(_per_channel(skip, base.dim()))
        if len(left) == 1:
            grad.flatten(1, -2).baddbmm_(rows, right)
        else:
            grad.add_(torch.bmm(rows, right).view(g.shape).movedim(1, source))
        return grad, g_skip, *g_matrices


def _contiguous(x: Tensor) -> Tensor:
    """x.contiguous(), a few rows at a time: gathering channels that lie last from more memory than
    the cache holds takes four times as long.
    """
    if x.is_contiguous() or x.stride(0) > 1:
        return x.contiguous()
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    rows = max(CACHE_BYTES * x.shape[1] // max(x.numel() * x.element_size(), 1), 1)
    for start in range(0, x.shape[1], rows):
        y[:, start : start + rows] = x[:, start : start + rows]
    return y


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
