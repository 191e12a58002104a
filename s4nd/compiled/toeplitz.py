"""Toeplitz matrices from taps, and the gradient back: one value per diagonal."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from s4nd.compiled.jit import Array, Team, compiled, in_parallel, inlined, take, team

SHARE = 16384  # numbers of the matrices that a thread takes at a time


def forward(taps: Tensor, size: int) -> Tensor:
    """taps (..., 2 L), lag 0 at index L -> T[i, j] = tap of lag i - j, 0 beyond: (..., n, n)."""
    matrices = taps.new_empty((*taps.shape[:-1], size, size))
    rows = taps.detach().contiguous().flatten(0, -2)
    spread(rows.numpy(), matrices.flatten(0, -3).numpy(), team())
    return matrices


def backward(grad: Tensor, lags: int) -> Tensor:
    """Sums over diagonals."""
    taps = grad.new_zeros((*grad.shape[:-2], lags))
    matrices = grad.detach().contiguous().flatten(0, -3)
    sum_diagonals(matrices.numpy(), taps.flatten(0, -2).numpy(), team())
    return taps


@compiled
def spread(taps: Array, matrices: Array, team: Team) -> None:
    """taps (H, 2 L) -> matrices (H, size, size)."""
    in_parallel(team, _spread, (np.zeros(1, np.int64), taps, matrices))


@inlined
def _spread(counter: Array, taps: Array, matrices: Array) -> None:
    size, length = matrices.shape[1], taps.shape[1] // 2
    row = np.zeros(2 * size - 1, taps.dtype)  # lags size - 1, ..., 1 - size
    last = size - 1 + min(length, size - 1)
    each = max(SHARE // size**2, 1)
    first = take(counter) * each
    while first < len(taps):
        for h in range(first, min(first + each, len(taps))):
            for m in range(size - length, last + 1):
                row[m] = taps[h, length + size - 1 - m]
            for i in range(size):
                for j in range(size):
                    matrices[h, i, j] = row[size - 1 - i + j]
        first = take(counter) * each


@compiled
def sum_diagonals(matrices: Array, taps: Array, team: Team) -> None:
    """Matrices (H, size, size) -> taps (H, 2 L): the sums of their diagonals, zeros beyond."""
    in_parallel(team, _sum_diagonals, (np.zeros(1, np.int64), matrices, taps))


@inlined
def _sum_diagonals(counter: Array, matrices: Array, taps: Array) -> None:
    size, length = matrices.shape[1], taps.shape[1] // 2
    row = np.empty(2 * size - 1, taps.dtype)
    last = size - 1 + min(length, size - 1)
    each = max(SHARE // size**2, 1)
    first = take(counter) * each
    while first < len(taps):
        for h in range(first, min(first + each, len(taps))):
            row[:] = 0
            for i in range(size):
                for j in range(size):
                    row[size - 1 - i + j] += matrices[h, i, j]
            for m in range(size - length, last + 1):
                taps[h, length + size - 1 - m] = row[m]
        first = take(counter) * each
