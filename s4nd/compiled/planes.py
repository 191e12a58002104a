"""The products of a layer on two axes with small planes, computed inside the cache.

A few neighbouring channels of one sample are copied to a block, multiplied along both axes, and
copied to the result, so that the signal is read once and the result written once. The gradient
computes the product along the last axis again. Sums over the batch are divided by shape, never by
the number of threads, which therefore does not change a result.

A signal is an array (batch, positions, channels) or (batch, channels, positions) below.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from s4nd.compiled.jit import Array, Team, called, compiled, in_parallel, inlined, take, team
from s4nd.compiled.memory_order import channels_lie_last, empty_like
from s4nd.compiled.tiles import LANES, empty_block, multiply, padded

UNITS = 16  # parts of the work, at least, if there are as many samples


def forward(signal: Tensor, skip: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """left (channels, height, height) and right (channels, width, width), plus skip * signal."""
    found, last = empty_like(signal), channels_lie_last(signal)
    given = _planes(signal, last), _numbers(skip), _numbers(left), _numbers(right)
    _forward(*given, _planes(found, last), last, _parts(signal), team())
    return found


def backward(
    grad: Tensor, signal: Tensor, skip: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of signal, skip and both matrices."""
    g_signal, last, parts = empty_like(signal), channels_lie_last(signal), _parts(signal)
    sums = [skip.new_empty(parts, *each.shape) for each in (skip, left, right)]
    _backward(
        _planes(grad, last), _planes(signal, last),
        *map(_numbers, (skip, left, right)), _planes(g_signal, last), *map(_numbers, sums),
        last, team(),
    )  # fmt: skip
    g_skip, g_left, g_right = (each.sum(0) if parts > 1 else each[0] for each in sums)
    return g_signal, g_skip, g_left, g_right


def _parts(signal: Tensor) -> int:
    """Parts that the batch is divided into."""
    batch, channels = signal.shape[:2]
    return max(min(batch, UNITS * LANES // channels), 1)


def _planes(signal: Tensor, last: bool) -> Array:
    """The memory of the signal, if its channels lie where `last` says."""
    signal = signal.detach()
    if last:
        return signal.movedim(1, -1).contiguous().flatten(1, 2).numpy()
    return signal.contiguous().flatten(2).numpy()


def _numbers(x: Tensor) -> Array:
    """A copy of a parameter or view: an array would pin memory that FSDP frees and reallocates."""
    x = x.detach()
    return (
        x.clone(memory_format=torch.contiguous_format) if x.dim() == 1 else x.contiguous()
    ).numpy()


@compiled
def _forward(
    signal: Array, skip: Array, left: Array, right: Array, found: Array,
    last: bool, parts: int, team: Team,
) -> None:  # fmt: skip
    given = (np.zeros(1, np.int64), signal, skip, left, right, found, last, parts)
    in_parallel(team, _forward_of_units, given)


@inlined
def _forward_of_units(
    counter: Array, signal: Array, skip: Array, left: Array, right: Array, found: Array,
    last: bool, parts: int,
) -> None:  # fmt: skip
    batch, (channels, height, _), width = len(signal), left.shape, right.shape[1]
    h, w = padded(height), padded(width)
    a, b = empty_block(h * h, left), empty_block(w * w, left)
    x, z, y = empty_block(h * w, left), empty_block(h * w, left), empty_block(h * w, left)
    unit = take(counter)
    while unit < channels // LANES * parts:
        c, part = unit // parts * LANES, unit % parts
        _load_matrix(a, left, c)
        _load_matrix(b, right, c)
        for n in range(batch * part // parts, batch * (part + 1) // parts):
            _load(x, signal, n, c, height, width, last)
            multiply(z, (1, w), b, (w, 1), x, (1, w), (w, h, width), False)
            multiply(y, (w, 1), a, (h, 1), z, (w, 1), (h, w, height), False)
            _add_skip(y, skip, c, x)
            _store(y, found, n, c, height, width, last)
        unit = take(counter)


@compiled
def _backward(
    grad: Array, signal: Array, skip: Array, left: Array, right: Array,
    of_signal: Array, of_skip: Array, of_left: Array, of_right: Array, last: bool, team: Team,
) -> None:  # fmt: skip
    """Gradients; those of skip and matrices are sums over parts of the batch, one for each part."""
    given = (np.zeros(1, np.int64), grad, signal, skip, left, right)
    in_parallel(team, _backward_of_units, (*given, of_signal, of_skip, of_left, of_right, last))


@inlined
def _backward_of_units(
    counter: Array, grad: Array, signal: Array, skip: Array, left: Array, right: Array,
    of_signal: Array, of_skip: Array, of_left: Array, of_right: Array, last: bool,
) -> None:  # fmt: skip
    batch, (channels, height, _), width = len(signal), left.shape, right.shape[1]
    h, w, parts = padded(height), padded(width), len(of_skip)
    a, of_a = empty_block(h * h, left), empty_block(h * h, left)
    b, of_b = empty_block(w * w, left), empty_block(w * w, left)
    x, g, z = empty_block(h * w, left), empty_block(h * w, left), empty_block(h * w, left)
    dots = empty_block(1, left)
    unit = take(counter)
    while unit < channels // LANES * parts:
        c, part = unit // parts * LANES, unit % parts
        _load_matrix(a, left, c)
        _load_matrix(b, right, c)
        of_a[:] = 0
        of_b[:] = 0
        dots[:] = 0
        for n in range(batch * part // parts, batch * (part + 1) // parts):
            _load(x, signal, n, c, height, width, last)
            _load(g, grad, n, c, height, width, last)
            _add_dots(dots, x, g, height, width)
            multiply(z, (1, w), b, (w, 1), x, (1, w), (w, h, width), False)
            multiply(of_a, (h, 1), g, (w, 1), z, (1, w), (h, h, width), True)
            multiply(z, (w, 1), a, (1, h), g, (w, 1), (h, w, height), False)  # gradient of z
            multiply(of_b, (w, 1), z, (1, w), x, (w, 1), (w, w, height), True)
            multiply(x, (1, w), b, (1, w), z, (1, w), (w, h, width), False)  # gradient of x
            _add_skip(x, skip, c, g)
            _store(x, of_signal, n, c, height, width, last)
        for lane in range(LANES):
            of_skip[part, c + lane] = dots[lane]
        _store_matrix(of_a, of_left[part], c)
        _store_matrix(of_b, of_right[part], c)
        unit = take(counter)


@called
def _load(block: Array, signal: Array, n: int, c: int, height: int, width: int, last: bool) -> None:
    w = padded(width)
    for i in range(height):
        if last:
            for j in range(width):
                for lane in range(LANES):
                    block[(i * w + j) * LANES + lane] = signal[n, i * width + j, c + lane]
        else:
            for lane in range(LANES):
                for j in range(width):
                    block[(i * w + j) * LANES + lane] = signal[n, c + lane, i * width + j]


@called
def _store(
    block: Array, signal: Array, n: int, c: int, height: int, width: int, last: bool
) -> None:
    w = padded(width)
    for i in range(height):
        if last:
            for j in range(width):
                for lane in range(LANES):
                    signal[n, i * width + j, c + lane] = block[(i * w + j) * LANES + lane]
        else:
            for lane in range(LANES):
                for j in range(width):
                    signal[n, c + lane, i * width + j] = block[(i * w + j) * LANES + lane]


@called
def _load_matrix(block: Array, matrices: Array, c: int) -> None:
    size = matrices.shape[1]
    for i in range(size):
        for lane in range(LANES):
            for j in range(size):
                block[(i * padded(size) + j) * LANES + lane] = matrices[c + lane, i, j]


@called
def _store_matrix(block: Array, matrices: Array, c: int) -> None:
    size = matrices.shape[1]
    for i in range(size):
        for lane in range(LANES):
            for j in range(size):
                matrices[c + lane, i, j] = block[(i * padded(size) + j) * LANES + lane]


@inlined
def _add_skip(block: Array, skip: Array, c: int, through: Array) -> None:
    for start in range(0, len(block), LANES):
        for lane in range(LANES):
            block[start + lane] += skip[c + lane] * through[start + lane]


@inlined
def _add_dots(dots: Array, x: Array, g: Array, height: int, width: int) -> None:
    """Without the margins of x, which hold NaN after an infinite number."""
    for i in range(height):
        for j in range(width):
            at = (i * padded(width) + j) * LANES
            for lane in range(LANES):
                dots[lane] += x[at + lane] * g[at + lane]
