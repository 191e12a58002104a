"""Sampling the kernel of one axis whose A is diagonal plus low rank.

Letters: H channels, n conjugate pairs, K kernels per channel, R low rank, L length, F frequencies.
Poles can lie within 1e-4 of the imaginary axis, where the low-rank correction cancels sums that are
10,000 times larger than the result: everything here is computed in double precision.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def low_rank_kernel(
    dt: Tensor, a: Tensor, b: Tensor, c: Tensor, p: Tensor, *, length: int, period: int
) -> Tensor:
    """c (I - A^period)^-1 A^l B of the bilinear system of diag(a) - P P^H: (K, H, length).

    dt (H, 1), a and b (H or 1, n, 2), c (K, H, n, 2), p (R, H or 1, n, 2); pairs are real, imaginary.

    On the period-th roots of unity w, the sum over l of k[l] w^l is c (I - w A)^-1 B, because c
    already contains the factor (I - A^period). With w = exp(-i t), s = sin(t/2), k = cos(t/2) and
    y = dt/2 it equals exp(i t/2) y c [i s - k y M]^-1 b with M = diag(a) - P P^H: finite at every t.
    The diagonal part of the inverse is a sum over pole pairs, the low-rank part follows by Woodbury,
    one column of P at a time, and the inverse transform is a matrix product.
    """
    grid = Grid(period, length, dt.device)
    y = dt / 2  # (H, 1)
    poles = _pole_pairs(y, a, grid)  # (H, n, 2F)
    right = torch.cat((b[None], p)).transpose(0, 1)  # (H or 1, 1 + R, n, 2)
    of_c = _sum_pairs(c.permute(1, 0, 3, 2).contiguous(), right, a, poles)
    of_p = _sum_pairs((p * grid.conjugate).permute(1, 0, 3, 2), right, a, poles)
    real_part, skew_part = torch.cat((of_c, of_p), 1).unbind(3)  # (H, K + R, 1 + R, F)
    shift = (y * grid.cos)[:, None, None]  # (H, 1, 1, F)
    table = grid.i_sin * real_part - shift * skew_part
    for _ in range(len(p)):
        row = table[:, -1:, :-1] * (shift / (1 + shift * table[:, -1:, -1:]))
        table = table[:, :-1, :-1] - table[:, :-1, -1:] * row
    spectrum = torch.view_as_real(table[:, :, 0].contiguous()).flatten(-2)  # (H, K, 2F)
    return ((spectrum @ grid.inverse) * y[..., None]).transpose(0, 1)


class Grid:
    """Constants of the frequencies t = 0, 2 pi / period, ..., pi."""

    def __init__(self, period: int, length: int, device: torch.device) -> None:
        wide = {"dtype": torch.float64, "device": device}
        t = 2 * math.pi / period * torch.arange(period // 2 + 1, **wide)  # (F,)
        sin, cos = (t / 2).sin(), (t / 2).cos()
        self.cos = cos
        self.i_sin = torch.complex(torch.zeros_like(sin), sin)
        self.conjugate = torch.tensor([1.0, -1.0], **wide)
        # (|x|^2, Re x, 1) @ this = k^2 |x|^2 - s^2 - 2 i s k Re x, for x = y a
        zero = torch.zeros_like(t)
        columns = [cos * cos, zero, zero, -t.sin(), -sin * sin, zero]
        self.denominator = torch.stack(columns).view(3, 2, -1).mT.reshape(3, -1)  # (3, 2F)
        # Each frequency stands for its conjugate too, except the two that are their own.
        weight = torch.where((t == 0) | (t == math.pi), 1 / period, 2 / period)[:, None]
        phase = t[:, None] * (torch.arange(length, **wide) + 0.5)  # (F, L)
        self.inverse = torch.stack((weight * phase.cos(), -weight * phase.sin()), 1).flatten(0, 1)


def _pole_pairs(y: Tensor, a: Tensor, grid: Grid) -> Tensor:
    """1 / ((i s - k x) (i s - k conj x)) for x = y a, as (H, n, 2F) = real, imaginary interleaved."""
    re, im = (y[..., None] * a).unbind(-1)  # (H, n)
    terms = torch.stack((re * re + im * im, re, torch.ones_like(re)), -1)  # (H, n, 3)
    denominator = (terms @ grid.denominator).unflatten(-1, (-1, 2))
    return torch.view_as_real(torch.view_as_complex(denominator).reciprocal()).flatten(-2)


def _sum_pairs(left: Tensor, right: Tensor, a: Tensor, poles: Tensor) -> Tensor:
    """Sums over n of 2 Re(w) and of 2 Re(w conj a), w = left * right, times the pole pairs.

    With these, w / (i s - k y a) + conj(w) / (i s - k y conj a) summed over n is i s times the first
    minus k y times the second. left (H or 1, K, 2, n), right (H or 1, 1 + R, n, 2).
    Result (H, K, 1 + R, 2, F), complex.
    """
    (re, im), (a_re, a_im) = right.unbind(-1), a[:, None].unbind(-1)  # (H or 1, 1 + R, n)
    of_re = 2 * torch.stack((re, re * a_re + im * a_im), 2)  # (H or 1, 1 + R, 2, n)
    of_im = -2 * torch.stack((im, im * a_re - re * a_im), 2)
    left = left[:, :, :, None, None]
    rows = left[:, :, 0] * of_re[:, None] + left[:, :, 1] * of_im[:, None]  # (H, K, 1 + R, 2, n)
    sums = torch.matmul(rows.flatten(1, 3), poles)  # (H, K (1 + R) 2, 2F)
    sums = torch.view_as_complex(sums.unflatten(-1, (-1, 2)))
    return sums.unflatten(1, rows.shape[1:4])
