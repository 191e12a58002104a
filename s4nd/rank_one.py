"""The kernel of diagonal-plus-rank-one state spaces on a CPU, with its gradient written out.

It computes what `s4nd.low_rank._kernel` does (a test holds them together) in a fraction of the
time: a channel is worked on from its weights to its kernel in memory that stays in the cache, where
a tensor at a time goes through the memory of the machine for every operation.

Letters as in `s4nd.low_rank`; j counts the rows of residues: for each kernel c b, c b conj(a), c p,
c p conj(a), then the same four for conj(p) instead of c. The sum of a row over the pole pairs is a
number per frequency.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from s4nd.low_rank import Grid

BLOCKS = 8  # of channels: each sums its own gradients, so that results do not depend on threads


class RankOneKernel(torch.autograd.Function):
    """(y, c, |a|^2, Re a, weights, rows of P, zero) -> kernel (K, H, L), of the type of c.

    y (H,) = dt / 2; c (K, H, n, 2); |a|^2 and Re a (S, n); weights (S, 2, 4, n), what turns the
    parts of c into rows of residues; rows (S, 4, n), those of P; zero (S, 2, n), what turns them
    into the mean of the kernel. Channel h uses state space h mod S.
    """

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        c: Tensor,
        squares: Tensor,
        a_re: Tensor,
        weights: Tensor,
        rows_p: Tensor,
        zero: Tensor,
        grid: Grid,
    ) -> Tensor:
        """Sum the pole pairs, apply Sherman-Morrison and transform back."""
        tensors = [x.contiguous() for x in (y, c, squares, a_re, weights, rows_p, zero)]
        kernels, channels = c.shape[:2]
        sums = y.new_empty(channels, len(grid.cos), 4 * kernels + 4, dtype=torch.complex128)
        out = c.new_empty(kernels, channels, len(grid.inverse))
        arrays = [x.detach().numpy() for x in (*tensors, *grid.tensors, sums, out)]
        _side_by_side(lambda first, step: _forward(first, step, *arrays))
        ctx.grid = grid
        ctx.save_for_backward(*tensors, sums)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of a complex z are dL/d Re z + i dL/d Im z throughout."""
        *tensors, sums = ctx.saved_tensors
        y, c, *shared = tensors
        of_y, of_c = torch.empty_like(y), torch.empty_like(c)
        of_shared = [x.new_zeros(BLOCKS, *x.shape) for x in shared]
        given = (*tensors, *ctx.grid.tensors, sums, grad.contiguous())
        arrays = [x.numpy() for x in (*given, of_y, of_c, *of_shared)]
        _side_by_side(lambda first, step: _backward(first, step, *arrays))
        return of_y, of_c, *[x.sum(0) for x in of_shared], None


def _side_by_side(work: Callable[[int, int], None]) -> None:
    """work(first, step) on every `step`-th block of channels, in as many threads as torch has."""
    count = min(torch.get_num_threads(), BLOCKS)
    others = [_threads(os.getpid()).submit(work, i, count) for i in range(1, count)]
    work(0, count)
    for other in others:
        other.result()


@lru_cache(maxsize=1)
def _threads(process: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """A forked process has none of its parent's threads."""
    return ThreadPoolExecutor(BLOCKS - 1, "s4nd")


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Machine code, kept beside this file or in the user's cache; sums may change their order."""
    options = {"nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}
    try:
        return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # neither place can be written
        return numba.njit(**options)(function)  # type: ignore[no-any-return]


@_compiled
def _forward(
    first, step, y, c, squares, a_re, weights, rows_p, zero, sin, cos, sin_full, inverse, sums, out
):
    kernels, channels, pairs, _ = c.shape
    spaces, frequencies, length = len(squares), len(sin), out.shape[2]
    rows = np.empty((4 * kernels + 4, pairs))
    poles = np.empty((2, pairs))
    spectrum = np.empty((kernels, 2 * frequencies))
    for block in range(first, BLOCKS, step):
        for h in range(channels * block // BLOCKS, channels * (block + 1) // BLOCKS):
            s = h % spaces
            _fill_rows(rows, c, h, weights[s], rows_p[s])
            for f in range(frequencies):
                _fill_poles(poles, y[h], squares[s], a_re[s], sin[f], cos[f], sin_full[f])
                for j in range(len(rows)):
                    re = im = 0.0
                    for i in range(pairs):
                        re += rows[j, i] * poles[0, i]
                        im += rows[j, i] * poles[1, i]
                    sums[h, f, j] = complex(re, im)
                shift = cos[f] * y[h]
                of_pb, of_pp = _pair(sums[h, f], kernels, sin[f], shift)
                q = shift * of_pb / (1 + shift * of_pp)
                for k in range(kernels):
                    of_cb, of_cp = _pair(sums[h, f], k, sin[f], shift)
                    value = y[h] * (of_cb - of_cp * q)
                    spectrum[k, f], spectrum[k, frequencies + f] = value.real, value.imag
            for k in range(kernels):
                mean = 0.0
                for i in range(pairs):
                    mean += c[k, h, i, 0] * zero[s, 0, i] + c[k, h, i, 1] * zero[s, 1, i]
                for sample in range(length):
                    value = mean
                    for f in range(2 * frequencies):
                        value += inverse[sample, f] * spectrum[k, f]
                    out[k, h, sample] = value


@_compiled
def _backward(
    first, step, y, c, squares, a_re, weights, rows_p, zero, sin, cos, sin_full, inverse, sums,
    grad, of_y, of_c, all_squares, all_a_re, all_weights, all_rows_p, all_zero,
):  # fmt: skip
    kernels, channels, pairs, _ = c.shape
    spaces, frequencies, length = len(squares), len(sin), grad.shape[2]
    rows, of_rows = np.empty((4 * kernels + 4, pairs)), np.empty((4 * kernels + 4, pairs))
    poles = np.empty((2, pairs))
    of_x_squared, of_x_re = np.empty(pairs), np.empty(pairs)
    of_spectrum = np.empty((kernels, 2 * frequencies))
    of_sums = np.empty(4 * kernels + 4, np.complex128)
    for block in range(first, BLOCKS, step):
        for h in range(channels * block // BLOCKS, channels * (block + 1) // BLOCKS):
            s = h % spaces
            _fill_rows(rows, c, h, weights[s], rows_p[s])
            of_rows[:], of_x_squared[:], of_x_re[:] = 0, 0, 0
            of_spectrum[:] = 0
            for k in range(kernels):
                for sample in range(length):
                    for f in range(2 * frequencies):
                        of_spectrum[k, f] += inverse[sample, f] * grad[k, h, sample]
            of_step = 0.0
            for f in range(frequencies):
                shift = cos[f] * y[h]
                of_pb, of_pp = _pair(sums[h, f], kernels, sin[f], shift)
                gain = 1 / (1 + shift * of_pp)
                ratio = shift * gain
                q = ratio * of_pb
                of_q = of_shift = 0j
                for k in range(kernels):
                    of_cb, of_cp = _pair(sums[h, f], k, sin[f], shift)
                    g = complex(of_spectrum[k, f], of_spectrum[k, frequencies + f])
                    of_step += (g.conjugate() * (of_cb - of_cp * q)).real
                    g = g * y[h]
                    of_q -= g * of_cp.conjugate()
                    of_shift += _pair_backward(
                        of_sums, sums[h, f], k, sin[f], shift, g, -g * q.conjugate()
                    )
                of_ratio = of_q * of_pb.conjugate()
                of_shift += of_ratio * (gain * gain).conjugate()
                of_shift += _pair_backward(
                    of_sums, sums[h, f], kernels, sin[f], shift,
                    of_q * ratio.conjugate(), -of_ratio * (ratio * ratio).conjugate(),
                )  # fmt: skip
                of_step += cos[f] * of_shift.real
                _fill_poles(poles, y[h], squares[s], a_re[s], sin[f], cos[f], sin_full[f])
                for i in range(pairs):
                    u, v = poles[0, i], poles[1, i]
                    of_u = of_v = 0.0
                    for j in range(len(rows)):
                        of_u += of_sums[j].real * rows[j, i]
                        of_v += of_sums[j].imag * rows[j, i]
                        of_rows[j, i] += of_sums[j].real * u + of_sums[j].imag * v
                    # With w the pole pair, dw = -w^2 d(1/w).
                    square_re, square_im = u * u - v * v, 2 * u * v
                    of_x_squared[i] -= (of_u * square_re + of_v * square_im) * cos[f] * cos[f]
                    of_x_re[i] += (of_v * square_re - of_u * square_im) * sin_full[f]
            for i in range(pairs):
                of_step += of_x_re[i] * a_re[s, i] + 2 * y[h] * of_x_squared[i] * squares[s, i]
                all_squares[block, s, i] += y[h] * y[h] * of_x_squared[i]
                all_a_re[block, s, i] += y[h] * of_x_re[i]
            of_y[h] = of_step
            for j in range(4):
                for i in range(pairs):
                    all_rows_p[block, s, j, i] += of_rows[4 * kernels + j, i]
            for k in range(kernels):
                of_mean = 0.0
                for sample in range(length):
                    of_mean += grad[k, h, sample]
                for part in range(2):
                    for i in range(pairs):
                        value = of_mean * zero[s, part, i]
                        for j in range(4):
                            value += of_rows[4 * k + j, i] * weights[s, part, j, i]
                            all_weights[block, s, part, j, i] += (
                                c[k, h, i, part] * of_rows[4 * k + j, i]
                            )
                        all_zero[block, s, part, i] += of_mean * c[k, h, i, part]
                        of_c[k, h, i, part] = value


@_compiled
def _fill_rows(rows, c, h, weights, rows_p):
    """The residues of every kernel of a channel, then those of P."""
    kernels, _, pairs, _ = c.shape
    for k in range(kernels):
        for j in range(4):
            for i in range(pairs):
                rows[4 * k + j, i] = c[k, h, i, 0] * weights[0, j, i] + c[k, h, i, 1] * weights[1, j, i]
    rows[4 * kernels :] = rows_p


@_compiled
def _fill_poles(poles, y, squares, a_re, sin, cos, sin_full):
    """1 / (k^2 |x|^2 - s^2 - 2 i s k Re x), x = y a: real parts, then imaginary parts."""
    for i in range(len(squares)):
        re = y * y * squares[i] * cos * cos - sin * sin
        im = y * a_re[i] * sin_full
        scale = 1 / (re * re + im * im)
        poles[0, i], poles[1, i] = re * scale, im * scale


@_compiled
def _pair(sums, k, sin, shift):
    """Of kernel k (or of P, after the last kernel): against b, and against p."""
    return (
        1j * sin * sums[4 * k] - shift * sums[4 * k + 1],
        1j * sin * sums[4 * k + 2] - shift * sums[4 * k + 3],
    )


@_compiled
def _pair_backward(of_sums, sums, k, sin, shift, of_b, of_p):
    """Writes the gradients of the sums; returns that of the shift."""
    of_sums[4 * k], of_sums[4 * k + 1] = -1j * sin * of_b, -shift * of_b
    of_sums[4 * k + 2], of_sums[4 * k + 3] = -1j * sin * of_p, -shift * of_p
    return -(of_b * sums[4 * k + 1].conjugate() + of_p * sums[4 * k + 3].conjugate())
