"""Sampling the kernel of one axis whose A is diagonal plus low rank: M = diag(a) - P P^H.

Letters: H channels, n conjugate pairs, K kernels per channel, R low rank, L length, F frequencies.
Poles can lie within 1e-4 of the imaginary axis, where the low-rank correction cancels sums that are
10,000 times larger than the result: everything here is computed in double precision.

On the roots of unity w of order `period`, the sum over l of k[l] w^l is c (I - w A)^-1 B, because c
already contains the factor (I - A^period). With w = exp(-i t), s = sin(t/2), k = cos(t/2), y = dt/2
it equals exp(i t/2) y c [i s - k y M]^-1 b: finite at every t. The diagonal part of the inverse is
a sum over pole pairs, the low-rank part follows by Woodbury, one column of P at a time, and the
inverse transform is a matrix product.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from s4nd.rank_one import RankOneKernel
from s4nd.zero_frequency import zero_frequency


def low_rank_kernel(
    dt: Tensor, a: Tensor, b: Tensor, c: Tensor, p: Tensor, *, length: int, period: int
) -> Tensor:
    """c (I - A^period)^-1 A^l B of the bilinear system: (K, H, length).

    dt (H, 1), a and b (H or 1, n, 2), c (K, H, n, 2), p (R, H or 1, n, 2); pairs are real,
    imaginary.
    """
    if length > period:
        raise ValueError(
            f"a kernel folded over {period} samples has no more than that, got length {length}; "
            "give the axis a longer period"
        )
    mean = zero_frequency(a, b, c, p)[..., None] / period  # (K, H, 1)
    if period == 1:
        return mean + 0 * dt  # the step has no influence, but a gradient
    grid = frequency_grid(period, length, dt.device)
    y = dt / 2  # (H, 1)
    x_re = y * a[..., 0]  # (H, n), x = y a
    x_squared = y * y * a.square().sum(-1)
    conjugate_p = torch.stack((p[..., 0], -p[..., 1]), -1).expand(-1, c.shape[1], -1, -1)
    left = torch.cat((c, conjugate_p)).transpose(0, 1)  # (H, K + R, n, 2)
    rows = _pair_residues(left, _pair_weights(a, torch.cat((b[None], p))))
    spectrum_of = _spectrum if len(p) > 1 or torch.compiler.is_compiling() else RankOneKernel.apply
    spectrum = spectrum_of(y, x_squared, x_re, rows, grid)  # (K, 2F, H)
    return mean + (torch.matmul(grid.inverse, spectrum) * y[:, 0]).mT


class Grid:
    """Constants of the frequencies t = 2 pi / period, ..., pi; zero goes its own way."""

    def __init__(self, period: int, length: int, device: torch.device) -> None:
        index = torch.arange(1, period // 2 + 1, dtype=torch.float64, device=device)
        t = 2 * math.pi / period * index  # (F,)
        self.sin, self.cos, self.sin_full = (t / 2).sin(), (t / 2).cos(), t.sin()
        # Each frequency stands for its conjugate too, except pi, which is its own.
        weight = (2 - (2 * index == period).to(t.dtype)) / period
        position = torch.arange(length, dtype=torch.float64, device=device) + 0.5
        phase = position[:, None] * t  # (L, F)
        self.inverse = torch.cat((weight * phase.cos(), -weight * phase.sin()), -1)  # (L, 2F)


def frequency_grid(period: int, length: int, device: torch.device) -> Grid:
    """The constants, kept from call to call unless the call is being traced."""
    if torch.compiler.is_compiling():
        return Grid(period, length, device)
    return _kept_grid(period, length, device)


@lru_cache(maxsize=128)
def _kept_grid(period: int, length: int, device: torch.device) -> Grid:
    with torch.inference_mode(False):  # training may use them after a prediction made them
        return Grid(period, length, device)


def _pair_weights(a: Tensor, right: Tensor) -> Tensor:
    """What turns a left factor into residues, (2, H or 1, 1 + R, 2, n): see `_pair_residues`."""
    re, im = right.transpose(0, 1).unbind(-1)  # (H or 1, 1 + R, n)
    a_re, a_im = a[:, None].unbind(-1)  # (H or 1, 1, n)
    of_re = torch.stack((re, re * a_re + im * a_im), 2)
    of_im = torch.stack((-im, re * a_im - im * a_re), 2)
    return 2 * torch.stack((of_re, of_im))


def _pair_residues(left: Tensor, weights: Tensor) -> Tensor:
    """2 Re(w) and 2 Re(w conj a) for w = left * right, right in (b, p): (H, K, 1 + R, 2, n).

    With them w / (i s - k x) + conj(w) / (i s - k conj x) is (2 Re(w) i s - 2 Re(w conj a) k y)
    over k^2 |x|^2 - s^2 - 2 i s k Re x. left (H, K, n, 2).
    """
    if weights.shape[1] > 1:
        re, im = left[:, :, None, None].unbind(-1)  # (H, K, 1, 1, n)
        return re * weights[0][:, None] + im * weights[1][:, None]
    # One state space for all channels: a product with a sparse matrix is fastest in both
    # directions.
    pairs = weights.shape[-1]
    matrix = torch.diag_embed(weights[:, 0]).permute(3, 0, 1, 2, 4).reshape(2 * pairs, -1)
    rows = left.reshape(-1, 2 * pairs) @ matrix
    return rows.view(*left.shape[:2], -1, 2, pairs)


def _spectrum(y: Tensor, x_squared: Tensor, x_re: Tensor, rows: Tensor, grid: Grid) -> Tensor:
    """What RankOneKernel gives, for any rank of P: (K, 2F, H), real parts then imaginary parts."""
    rank = rows.shape[2] - 1  # rows (H, K + R, 1 + R, 2, n)
    re = x_squared[..., None] * grid.cos.square() - grid.sin.square()  # (H, n, F)
    im = x_re[..., None] * grid.sin_full
    poles = torch.cat((re, im), -1) / (re * re + im * im).repeat(1, 1, 2)  # (H, n, 2F)
    sums = torch.matmul(rows.flatten(1, 3), poles).view(*rows.shape[:-1], 2, len(grid.cos))
    sums = torch.complex(sums[..., 0, :], sums[..., 1, :])  # (H, K + R, 1 + R, 2, F)
    shift = (y * grid.cos)[:, None, None]  # (H, 1, 1, F)
    table = 1j * grid.sin * sums[:, :, :, 0] - shift * sums[:, :, :, 1]  # (H, K + R, 1 + R, F)
    for _ in range(rank):
        row = table[:, -1:, :-1] * (shift / (1 + shift * table[:, -1:, -1:]))
        table = table[:, :-1, :-1] - table[:, :-1, -1:] * row
    return torch.cat((table[:, :, 0].real, table[:, :, 0].imag), -1).movedim(0, -1)
