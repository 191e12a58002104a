"""The products of a depthwise layer of rank one, and their gradient.

It computes what the general code of `s4nd.conv` does (a test compares them) with as few large
tensors as possible: on a CPU, the first access to new memory costs as much as the arithmetic. The
skip is written where the last product adds to it, or added while channels are moved back to last.

A signal is (batch, channels, a, b, last) below: `last` is the last axis, b the one before it, a all
the others as one. Products need the layout (channels, b, a, batch, last).
In loops a channels-last signal is (batch, a, b, last, channels); the innermost loop runs along the
array that is written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from s4nd.compiled.jit import Array, Team, compiled, in_parallel, inlined, take, team
from s4nd.compiled.memory_order import channels_lie_last, empty_like, empty_with_leading_channels

CHANNELS = 64  # channels gathered at a time, in channels-last signals
LANES = 16  # numbers written at a time
SHARES = 64  # parts of the work, in channels-first signals


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
    _dots_loop(_numbers(mine.flatten(1)), _numbers(first), _numbers(g_skip), team())
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
    _gather_loop(_numbers(signal.movedim(1, -1)), _numbers(found), team())
    return found


def _scatter(product: Tensor, signal: Tensor, skip: Tensor, found: Tensor) -> None:
    """Write product (channels, b, a, batch, last) + skip * signal to `found`, like signal."""
    loop = _scatter_loop
    if channels_lie_last(found):
        loop, signal, found = _scatter_last_loop, signal.movedim(1, -1), found.movedim(1, -1)
    # A copy of the parameter: an array would pin its memory, which FSDP frees and reallocates.
    given = (product, signal.contiguous(), skip.clone(memory_format=torch.contiguous_format), found)
    loop(*[_numbers(x) for x in given], team())


def _numbers(x: Tensor) -> Array:
    """An array with the memory of the tensor."""
    return x.detach().numpy()


@compiled
def _gather_loop(signal: Array, found: Array, team: Team) -> None:
    """signal (batch, a, b, last, channels) -> found (channels, b, a, batch, last)."""
    in_parallel(team, _gather_part, (np.zeros(1, np.int64), signal, found))


@inlined
def _gather_part(counter: Array, signal: Array, found: Array) -> None:
    batch, a, b, last, channels = signal.shape
    blocks = -(-channels // CHANNELS)
    unit = take(counter)
    while unit < a * b * blocks:
        i, j, first = unit // blocks // b, unit // blocks % b, unit % blocks * CHANNELS
        for n in range(batch):
            for c in range(first, min(first + CHANNELS, channels)):
                for w in range(last):
                    found[c, j, i, n, w] = signal[n, i, j, w, c]
        unit = take(counter)


@compiled
def _scatter_last_loop(
    product: Array, signal: Array, skip: Array, found: Array, team: Team
) -> None:
    """product (channels, b, a, batch, last) + skip * signal (batch, a, b, last, channels)."""
    in_parallel(team, _scatter_last_part, (np.zeros(1, np.int64), product, signal, skip, found))


@inlined
def _scatter_last_part(
    counter: Array, product: Array, signal: Array, skip: Array, found: Array
) -> None:
    batch, a, b, last, channels = signal.shape
    unit = take(counter)
    while unit < a * b * batch:
        i, j, n = unit // batch // b, unit // batch % b, unit % batch
        for first in range(0, channels - LANES + 1, LANES):
            for w in range(last):
                for lane in range(LANES):
                    c = first + lane
                    found[n, i, j, w, c] = product[c, j, i, n, w] + skip[c] * signal[n, i, j, w, c]
        for c in range(channels - channels % LANES, channels):
            for w in range(last):
                found[n, i, j, w, c] = product[c, j, i, n, w] + skip[c] * signal[n, i, j, w, c]
        unit = take(counter)


@compiled
def _scatter_loop(product: Array, signal: Array, skip: Array, found: Array, team: Team) -> None:
    """product (channels, b, a, batch, last) + skip * signal (batch, channels, a, b, last)."""
    in_parallel(team, _scatter_part, (np.zeros(1, np.int64), product, signal, skip, found))


@inlined
def _scatter_part(counter: Array, product: Array, signal: Array, skip: Array, found: Array) -> None:
    batch, channels, a, b, last = signal.shape
    each = -(-channels // SHARES)
    first = take(counter) * each
    while first < channels:
        for c in range(first, min(first + each, channels)):
            for n in range(batch):
                for i in range(a):
                    for j in range(b):
                        for w in range(last):
                            through = skip[c] * signal[n, c, i, j, w]
                            found[n, c, i, j, w] = product[c, j, i, n, w] + through
        first = take(counter) * each


@compiled
def _dots_loop(first: Array, second: Array, found: Array, team: Team) -> None:
    """first and second (channels, count) -> found (channels,): their dot products."""
    in_parallel(team, _dots_part, (np.zeros(1, np.int64), first, second, found))


@inlined
def _dots_part(counter: Array, first: Array, second: Array, found: Array) -> None:
    each = -(-len(first) // SHARES)
    start = take(counter) * each
    while start < len(first):
        for c in range(start, min(start + each, len(first))):
            total = found.dtype.type(0)
            for i in range(first.shape[1]):
                total += first[c, i] * second[c, i]
            found[c] = total
        start = take(counter) * each
