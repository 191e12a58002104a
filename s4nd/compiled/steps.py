"""The product of a short matrix per channel with a signal along its steps, channels last.

A signal is (clips, steps, places, channels). The innermost loops run along neighbouring channels,
so that nothing is transposed in memory. Sums are divided by shape, never by the number of threads,
which therefore does not change a result.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from s4nd.compiled.jit import Array, Team, compiled, in_parallel, inlined, take, team

CHANNELS = 128  # channels computed at a time: the matrices of 8 steps then stay in the first cache
PLACES = 16  # places computed at a time
UNITS = 16  # parts of the work in a gradient, at least, if there are as many clips


def forward(matrix: Tensor, signal: Tensor) -> Tensor:
    """matrix (channels, steps, steps), signal as above -> the same shape, contiguous."""
    found = signal.new_zeros(signal.shape)
    tiles = _tiles(signal)
    columns = matrix.permute(1, 2, 0).repeat(1, 1, tiles)  # (steps, steps, channels)
    _product(_numbers(columns), _numbers(signal, tiles), _numbers(found, tiles), team())
    return found


def backward(
    grad: Tensor, matrix: Tensor, signal: Tensor, *, of_matrix: bool, of_signal: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of matrix and signal, each an empty tensor where it is not asked for."""
    g_matrix, g_signal = matrix.new_empty(0), signal.new_empty(0)
    if of_signal:
        g_signal = forward(matrix.mT, grad)
    if of_matrix:
        (clips, steps, _, channels), tiles = signal.shape, _tiles(signal)
        shares = max(min(clips, UNITS * CHANNELS // (channels * tiles)), 1)
        sums = matrix.new_zeros(shares, steps, steps, tiles * channels)
        _outer(_numbers(grad, tiles), _numbers(signal, tiles), _numbers(sums), team())
        g_matrix = (
            sums.view(*sums.shape[:-1], tiles, channels).sum((0, 3)).permute(2, 0, 1).contiguous()
        )
    return g_matrix, g_signal


def _tiles(signal: Tensor) -> int:
    """Neighbouring places that are computed as one, so that rows of few channels are long."""
    places, channels = signal.shape[2:]
    return next(n for n in (8, 4, 2, 1) if places % n == 0 and (n * channels <= CHANNELS or n == 1))


def _numbers(x: Tensor, tiles: int = 1) -> Array:
    """A contiguous array, with the memory of the tensor where that is contiguous."""
    x = x.detach().contiguous()
    return x.view(*x.shape[:-2], x.shape[-2] // tiles, x.shape[-1] * tiles).numpy()


@inlined
def _add(found: Array, a: Array, b: Array) -> None:
    """found += a * b, for slices that numba knows to be contiguous."""
    for i in range(len(found)):
        found[i] += a[i] * b[i]


@inlined
def _add_four(
    found: Array, a: Array, b: Array, c: Array, d: Array, e: Array, f: Array, g: Array, h: Array
) -> None:
    for i in range(len(found)):
        found[i] += a[i] * b[i] + c[i] * d[i] + e[i] * f[i] + g[i] * h[i]


@compiled
def _product(matrix: Array, signal: Array, found: Array, team: Team) -> None:
    """matrix (steps, steps, channels); found is zero at first."""
    in_parallel(team, _product_of_places, (np.zeros(1, np.int64), matrix, signal, found))


@inlined
def _product_of_places(counter: Array, matrix: Array, signal: Array, found: Array) -> None:
    clips, steps, places, channels = signal.shape
    blocks, parts = -(-channels // CHANNELS), -(-places // PLACES)
    unit = take(counter)
    while unit < clips * blocks * parts:
        n, block, start = unit // parts // blocks, unit // parts % blocks, unit % parts * PLACES
        row = slice(block * CHANNELS, (block + 1) * CHANNELS)
        for p in range(start, min(start + PLACES, places)):
            for t in range(steps):
                y = found[n, t, p, row]
                for s in range(0, steps - 3, 4):
                    _add_four(
                        y,
                        matrix[t, s, row], signal[n, s, p, row],
                        matrix[t, s + 1, row], signal[n, s + 1, p, row],
                        matrix[t, s + 2, row], signal[n, s + 2, p, row],
                        matrix[t, s + 3, row], signal[n, s + 3, p, row],
                    )  # fmt: skip
                for s in range(steps - steps % 4, steps):
                    _add(y, matrix[t, s, row], signal[n, s, p, row])
        unit = take(counter)


@compiled
def _outer(grad: Array, signal: Array, sums: Array, team: Team) -> None:
    """sums (shares, steps, steps, channels), zeros at first: sums over clips and places."""
    in_parallel(team, _outer_of_clips, (np.zeros(1, np.int64), grad, signal, sums))


@inlined
def _outer_of_clips(counter: Array, grad: Array, signal: Array, sums: Array) -> None:
    clips, steps, places, channels = signal.shape
    shares, blocks = len(sums), -(-channels // CHANNELS)
    unit = take(counter)
    while unit < shares * blocks:
        share, block = unit // blocks, unit % blocks
        row = slice(block * CHANNELS, (block + 1) * CHANNELS)
        for n in range(share, clips, shares):
            for start in range(0, places, PLACES):
                last = min(start + PLACES, places)
                for t in range(steps):
                    for s in range(steps):
                        y = sums[share, t, s, row]
                        for p in range(start, last - 3, 4):
                            _add_four(
                                y,
                                grad[n, t, p, row], signal[n, s, p, row],
                                grad[n, t, p + 1, row], signal[n, s, p + 1, row],
                                grad[n, t, p + 2, row], signal[n, s, p + 2, row],
                                grad[n, t, p + 3, row], signal[n, s, p + 3, row],
                            )  # fmt: skip
                        for p in range(last - (last - start) % 4, last):
                            _add(y, grad[n, t, p, row], signal[n, s, p, row])
        unit = take(counter)
