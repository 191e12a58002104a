"""Sampling the kernel of one axis whose A is diagonal plus low rank: M = diag(a) - P P^H.

Letters: H channels, n conjugate pairs, K kernels per channel, R low rank, L length, F frequencies.
Poles can lie within 1e-4 of the imaginary axis, where the low-rank correction cancels sums that are
10,000 times larger than the result: everything here is computed in double precision.

On the roots of unity w of order `period`, the sum over l of k[l] w^l is c (I - w A)^-1 B, because c
already contains the factor (I - A^period). With w = exp(-i t), s = sin(t/2), k = cos(t/2), y = dt/2
it equals exp(i t/2) y c [i s - k y M]^-1 b: finite at every t. The diagonal part of the inverse is a
sum over pole pairs, the low-rank part follows by Woodbury, one column of P at a time, and the inverse
transform is a matrix product.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from s4nd.rank_one import RankOneKernel


def low_rank_kernel(
    dt: Tensor, a: Tensor, b: Tensor, c: Tensor, p: Tensor, *, length: int, period: int
) -> Tensor:
    """c (I - A^period)^-1 A^l B of the bilinear system: (K, H, length).

    dt (H, 1), a and b (H or 1, n, 2), c (K, H, n, 2), p (R, H or 1, n, 2); pairs are real, imaginary.
    """
    grid = Grid(period, length, dt.device)
    y = dt / 2  # (H, 1)
    x_re = y * a[..., 0]  # (H, n), x = y a
    x_squared = y * y * a.square().sum(-1)
    rows = _pair_residues(a, b, c, p)  # (H, K + R, 1 + R, 2, n)
    if len(p) == 1 and not torch.compiler.is_compiling():
        spectrum = RankOneKernel.apply(y, x_squared, x_re, rows.flatten(1, 3), grid)  # (H, K, 2F)
    else:
        spectrum = _spectrum(y, x_squared, x_re, rows, grid)
    return ((spectrum @ grid.inverse) * y[..., None]).transpose(0, 1)


class Grid:
    """Constants of the frequencies t = 0, 2 pi / period, ..., pi."""

    def __init__(self, period: int, length: int, device: torch.device) -> None:
        wide = {"dtype": torch.float64, "device": device}
        t = 2 * math.pi / period * torch.arange(period // 2 + 1, **wide)  # (F,)
        self.sin, self.cos, self.sin_full = (t / 2).sin(), (t / 2).cos(), t.sin()
        # Each frequency stands for its conjugate too, except the two that are their own.
        weight = torch.where((t == 0) | (t == math.pi), 1 / period, 2 / period)[:, None]
        phase = t[:, None] * (torch.arange(length, **wide) + 0.5)  # (F, L)
        self.inverse = torch.cat((weight * phase.cos(), -weight * phase.sin()))  # (2F, L)


def _pair_residues(a: Tensor, b: Tensor, c: Tensor, p: Tensor) -> Tensor:
    """2 Re(w) and 2 Re(w conj a) for w = left * right, left in (c, conj p), right in (b, p).

    With them w / (i s - k x) + conj(w) / (i s - k conj x) is (2 Re(w) i s - 2 Re(w conj a) k y) over
    k^2 |x|^2 - s^2 - 2 i s k Re x. Result (H, K + R, 1 + R, 2, n).
    """
    channels = c.shape[1]
    re, im = torch.cat((b[None], p)).transpose(0, 1).unbind(-1)  # (H or 1, 1 + R, n)
    a_re, a_im = a[:, None].unbind(-1)  # (H or 1, 1, n)
    of_re = 2 * torch.stack((re, re * a_re + im * a_im), 2)  # (H or 1, 1 + R, 2, n)
    of_im = -2 * torch.stack((im, im * a_re - re * a_im), 2)
    p_re, p_im = p.unbind(-1)
    conjugate_p = torch.stack((p_re, -p_im), -1).expand(-1, channels, -1, -1)
    left = torch.cat((c, conjugate_p)).permute(1, 0, 3, 2).contiguous()  # (H, K + R, 2, n)
    left_re, left_im = left[:, :, :, None, None].unbind(2)
    return left_re * of_re[:, None] + left_im * of_im[:, None]


def _spectrum(y: Tensor, x_squared: Tensor, x_re: Tensor, rows: Tensor, grid: Grid) -> Tensor:
    """What RankOneKernel gives, for any rank of P: (H, K, 2F), real parts then imaginary parts."""
    rank = rows.shape[2] - 1
    re = x_squared[..., None] * grid.cos.square() - grid.sin.square()  # (H, n, F)
    im = x_re[..., None] * grid.sin_full
    poles = torch.cat((re, im), -1) / (re * re + im * im).repeat(1, 1, 2)  # (H, n, 2F)
    sums = (rows.flatten(1, 3) @ poles).unflatten(1, rows.shape[1:4]).unflatten(-1, (2, -1))
    sums = torch.complex(*sums.unbind(-2))  # (H, K + R, 1 + R, 2, F)
    shift = (y * grid.cos)[:, None, None]  # (H, 1, 1, F)
    table = 1j * grid.sin * sums[:, :, :, 0] - shift * sums[:, :, :, 1]  # (H, K + R, 1 + R, F)
    for _ in range(rank):
        row = table[:, -1:, :-1] * (shift / (1 + shift * table[:, -1:, -1:]))
        table = table[:, :-1, :-1] - table[:, :-1, -1:] * row
    return torch.cat((table[:, :, 0].real, table[:, :, 0].imag), -1)
