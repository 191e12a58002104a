"""Toeplitz matrices from taps, and the gradient back, in machine code: one value per diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s4nd.machine_code import Array, Team, compiled, in_parallel, inlined, take, team

SHARE = 16384  # numbers of the matrices that a thread takes at a time


class Toeplitz(torch.autograd.Function):
    """taps (..., 2 L), lag 0 at index L -> T[i, j] = tap of lag i - j, 0 beyond: (..., n, n)."""

    @staticmethod
    def forward(ctx: Any, taps: Tensor, size: int) -> Tensor:
        """For a signal of `size` samples, at least L."""
        ctx.lags = taps.shape[-1]
        rows = taps.detach().contiguous().flatten(0, -2)
        matrices = torch.from_numpy(spread(rows.numpy(), size, team()))
        return matrices.view(*taps.shape[:-1], size, size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Sums over diagonals."""
        matrices = grad.contiguous().flatten(0, -3)
        taps = torch.from_numpy(sum_diagonals(matrices.numpy(), ctx.lags, team()))
        return taps.view(*grad.shape[:-2], ctx.lags), None


@compiled
def spread(taps: Array, size: int, team: Team) -> Array:
    """taps (H, 2 L) -> matrices (H, size, size)."""
    matrices = np.empty((len(taps), size, size), taps.dtype)
    in_parallel(team, _spread, (np.zeros(1, np.int64), taps, matrices))
    return matrices


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
def sum_diagonals(matrices: Array, lags: int, team: Team) -> Array:
    """Matrices (H, size, size) -> the sums of their diagonals (H, lags)."""
    taps = np.zeros((len(matrices), lags), matrices.dtype)
    in_parallel(team, _sum_diagonals, (np.zeros(1, np.int64), matrices, taps))
    return taps


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
