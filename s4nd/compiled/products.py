"""The products of a depthwise layer of rank one, and their gradient.

It computes what the general code of `s4nd.conv` does (a test compares them) with as few large
tensors as possible: on a CPU, the first access to new memory costs as much as the arithmetic. The
skip is written where the last product adds to it, or added while channels are moved back to last.

A signal is (batch, channels, a, b, last) below: `last` is the last axis, b the one before it, a all
the others as one. Products need the layout (channels, b, a, batch, last).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from s4nd.compiled import transpose
from s4nd.compiled.jit import Array, team
from s4nd.compiled.operators import (
    channels_lie_last,
    empty_like,
    empty_with_leading_channels,
)


def forward(
    signal: Tensor, skip: Tensor, matrices: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """The result, and the left-hand sides of all products for the gradient.

    The last axis is multiplied from the right; then, from the last but one to the first, each is
    moved next to the channels and multiplied from the left.
    """
    *left, right = matrices
    batch, channels, *others, before, last = signal.shape
    rest = math.prod(others)
    source = len(others) + 1  # where the next axis to be multiplied from the left is
    z = _gather(signal.reshape(batch, channels, rest, before, last))
    z = z.view(channels, before, *others, batch, last)
    kept = [z]
    z = torch.bmm(z.flatten(1, -2), right.mT).view(z.shape)
    for matrix in reversed(left[1:]):
        kept.append(z)
        z = torch.bmm(matrix, z.flatten(2)).view(z.shape).movedim(source, 1).contiguous()
    kept.append(z)
    if channels_lie_last(signal):
        z = torch.bmm(left[0], z.flatten(2)).view(channels, rest * before, 1, batch, last)
        y = empty_like(signal)
        flat = (batch, channels, 1, rest * before, last)
        _scatter(z, signal.reshape(flat), skip, y.view(flat))
        return y, kept
    y = empty_with_leading_channels(signal)
    leading = y.movedim(0, -2)
    torch.mul(kept[0].movedim(1, source), skip.view(-1, *[1] * (z.dim() - 1)), out=leading)
    leading.flatten(2).baddbmm_(left[0], z.flatten(2))
    return y, kept


def backward(
    grad: Tensor, skip: Tensor, kept: Sequence[Tensor], matrices: Sequence[Tensor], *,
    of_signal: bool,
) -> tuple[Tensor, Tensor, list[Tensor]]:  # fmt: skip
    """Gradients of signal (if asked for, else an empty tensor), skip and every matrix."""
    *left, right = matrices
    batch, channels, *others, before, last = grad.shape
    rest, source = math.prod(others), len(others) + 1
    flat = grad.reshape(batch, channels, 1, rest * before, last)
    mine = _gather(flat).view(channels, *others, before, batch, last)
    first = kept[0].movedim(1, source).flatten(1).contiguous()
    g_skip = torch.empty_like(skip)
    transpose.dots(_numbers(mine.flatten(1)), _numbers(first), _numbers(g_skip), team())
    g_matrices, g = [], mine
    for index, matrix in enumerate(left):
        if index:
            g = g.movedim(1, source).contiguous()
        g_matrices.append(torch.bmm(g.flatten(2), kept[-1 - index].flatten(2).mT))
        g = torch.bmm(matrix.mT, g.flatten(2)).view(g.shape)
    rows = g.flatten(1, -2)
    g_matrices.append(torch.bmm(rows.mT, kept[0].flatten(1, -2)))
    if not of_signal:
        return grad.new_empty(0), g_skip, g_matrices
    torch.bmm(rows, right, out=mine.view(rows.shape))
    product, g_signal = mine.view(channels, before, rest, batch, last), empty_like(grad)
    shape = (batch, channels, rest, before, last)
    _scatter(product, grad.reshape(shape), skip, g_signal.view(shape))
    return g_signal, g_skip, g_matrices


def _gather(signal: Tensor) -> Tensor:
    """(batch, channels, a, b, last) -> a new tensor (channels, b, a, batch, last)."""
    leading = signal.permute(1, 3, 2, 0, 4)
    if not channels_lie_last(signal):
        return leading.clone(memory_format=torch.contiguous_format)
    found = signal.new_empty(leading.shape)
    transpose.gather(_numbers(signal.movedim(1, -1)), _numbers(found), team())
    return found


def _scatter(product: Tensor, signal: Tensor, skip: Tensor, found: Tensor) -> None:
    """Write product (channels, b, a, batch, last) + skip * signal to `found`, like signal."""
    loop = transpose.scatter
    if channels_lie_last(found):
        loop, signal, found = transpose.scatter_last, signal.movedim(1, -1), found.movedim(1, -1)
    # A copy of the parameter: an array would pin its memory, which FSDP frees and reallocates.
    given = (product, signal.contiguous(), skip.clone(memory_format=torch.contiguous_format), found)
    loop(*[_numbers(x) for x in given], team())


def _numbers(x: Tensor) -> Array:
    """An array with the memory of the tensor."""
    return x.detach().numpy()
