"""Sampling the kernel K(t) = C exp(t A) B of one axis, in real arithmetic.

Letters: H channels, n conjugate pairs, K kernels per channel, R low rank, L length, F frequencies.
Complex parameters are (..., 2) = real, imaginary; complex intermediates are tuples (real, imaginary).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor

Complex: TypeAlias = tuple[Tensor, Tensor]


def _multiply(x: Complex, y: Complex) -> Complex:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _divide(x: Complex, y: Complex) -> Complex:
    scale = 1 / (y[0] * y[0] + y[1] * y[1])
    re, im = _multiply(x, (y[0], -y[1]))
    return re * scale, im * scale


def bandlimit_mask(dt: Tensor, a_im: Tensor, bandlimit: float) -> Tensor:
    """Which basis functions stay: those of frequency below bandlimit / 2 cycles per base sample."""
    return dt * a_im.abs() / (2 * math.pi) < bandlimit / 2  # (H, n)


def diagonal_kernel(
    dt: Tensor, a: Complex, b: Tensor, c: Tensor, length: int, rule: str
) -> Tensor:
    """2 Re sum_n c_n b_n w_n z_n^l for l < length: (K, H, length).

    dt (H, 1), a (H or 1, n), b (H or 1, n, 2), c (K, H, n, 2).
    Zero-order hold: z = exp(dt a), w = (z - 1) / a. Bilinear: z = (1 + dt a / 2) / (1 - dt a / 2).

    With l = q * width + r the power splits into z^(q width) z^r, so only 2 sqrt(length) powers are
    needed, and the sum over n becomes a matrix product.
    """
    dta = (dt * a[0], dt * a[1])  # (H, n)
    if rule == "zoh":
        log_z = dta
        cos, half = dta[1].cos(), (dta[1] / 2).sin()
        growth = torch.expm1(dta[0])
        z_minus_1 = (growth * cos - 2 * half * half, (growth + 1) * dta[1].sin())
        w = _divide(z_minus_1, a)
    else:
        denominator = (1 - dta[0] / 2, -dta[1] / 2)
        z = _divide((1 + dta[0] / 2, dta[1] / 2), denominator)
        log_z = ((z[0] * z[0] + z[1] * z[1]).log() / 2, torch.atan2(z[1], z[0]))
        w = _divide((dt.expand_as(dta[0]), torch.zeros_like(dta[0])), denominator)
    w = _multiply(w, (b[..., 0], b[..., 1]))  # (H, n)
    w = _multiply(w, (c[..., 0], c[..., 1]))  # (K, H, n)
    width = math.isqrt(length - 1) + 1 if length > 1 else 1
    blocks = -(-length // width)
    low = _powers(log_z, width, 1)  # (H, n, width)
    high = _powers(log_z, blocks, width)  # (H, n, blocks)
    re, im = _multiply((w[0][..., None], w[1][..., None]), high)  # (K, H, n, blocks)
    left = torch.cat((re, -im), 2)  # (K, H, 2n, blocks)
    right = torch.cat(low, 1)  # (H, 2n, width)
    kernel = 2 * torch.matmul(left.transpose(-1, -2), right)  # (K, H, blocks, width)
    return kernel.flatten(-2)[..., :length]


def _powers(log_z: Complex, count: int, stride: int) -> Complex:
    """z^(stride i) for i < count, by its logarithm."""
    steps = stride * torch.arange(count, dtype=log_z[0].dtype, device=log_z[0].device)
    size, angle = (log_z[0][..., None] * steps).exp(), log_z[1][..., None] * steps
    return size * angle.cos(), size * angle.sin()


def low_rank_kernel(
    dt: Tensor, a: Complex, b: Tensor, c: Tensor, p: Tensor, *, length: int, period: int
) -> Tensor:
    """c (I - A^period)^-1 A^l B of the bilinear system of diag(a) - P P^H: (K, H, length).

    dt (H, 1), a (H or 1, n), b (H or 1, n, 2), c (K, H, n, 2), p (R, H or 1, n, 2).

    On the period-th roots of unity w, the sum over l of k[l] w^l is c (I - w A)^-1 B, because c
    already contains the factor (I - A^period). With w = exp(-i t), s = sin(t/2), k = cos(t/2) and
    y = dt/2 it is exp(i t/2) y c [i s - k y M]^-1 b: finite at every t. The diagonal part of the
    inverse sums pole pairs, the low-rank part follows by Woodbury, the inverse transform is a product.
    """
    y = dt / 2  # (H, 1)
    num_kernels, channels = c.shape[0], c.shape[1]
    rank = p.shape[0]
    grid = _Grid(period, length, dt.dtype, dt.device)
    left = torch.cat((c, _conjugate(p).expand(-1, channels, -1, -1)))  # (K + R, H, n, 2)
    right = torch.cat((b[None], p))  # (1 + R, H or 1, n, 2)
    w = _multiply(_parts(left[:, None]), _parts(right[None]))  # (K + R, 1 + R, H, n)
    residues = torch.stack((2 * w[0], 2 * y * (w[0] * a[0] + w[1] * a[1])))
    sums = _sum_pole_pairs((y * a[0], y * a[1]), residues, grid)  # (H, K + R, 1 + R, F)
    shift = (y * grid.cos)[:, None, None]  # (H, 1, 1, F)
    for _ in range(rank):  # Woodbury, one column of P at a time
        sums = _eliminate_last(sums, shift)
    spectrum = torch.cat((sums[0][:, :, 0], sums[1][:, :, 0]), -1)  # (H, K, 2F)
    kernel = (y[..., None] * spectrum) @ grid.inverse  # (H, K, L)
    return kernel.transpose(0, 1).reshape(num_kernels, channels, length)


def _parts(x: Tensor) -> Complex:
    return x[..., 0], x[..., 1]


def _conjugate(x: Tensor) -> Tensor:
    return torch.stack((x[..., 0], -x[..., 1]), -1)


class _Grid:
    """Constants of one frequency grid."""

    def __init__(self, period: int, length: int, dtype: torch.dtype, device: torch.device) -> None:
        wide = {"dtype": torch.float64, "device": device}
        angle = 2 * math.pi / period * torch.arange(period // 2 + 1, **wide)  # (F,)
        phase = angle[:, None] * (torch.arange(length, **wide) + 0.5)  # (F, L)
        weight = torch.full_like(angle, 2 / period)  # each frequency stands for its conjugate too
        weight[0] = 1 / period
        if period % 2 == 0:
            weight[-1] = 1 / period
        inverse = torch.cat((weight[:, None] * phase.cos(), -weight[:, None] * phase.sin()))
        self.sin = (angle / 2).sin().to(dtype)  # (F,)
        self.cos = (angle / 2).cos().to(dtype)
        self.sin_full = angle.sin().to(dtype)
        self.inverse = inverse.to(dtype)  # (2F, L)


def _sum_pole_pairs(x: Complex, residues: Tensor, grid: _Grid) -> Complex:
    """sum_n w_n / (i s - k x_n) + conj(w_n) / (i s - k conj x_n) for every row w.

    x (H, n); residues (2, rows..., H, n) = 2 Re w, 2 Re(w conj x). Result (H, rows..., F).
    """
    size = (x[0] * x[0] + x[1] * x[1])[..., None]  # (H, n, 1)
    re = size * (grid.cos * grid.cos) - grid.sin * grid.sin  # (H, n, F)
    im = x[0][..., None] * grid.sin_full
    scale = 1 / (re * re + im * im)
    poles = torch.cat((re * scale, im * scale), -1)  # (H, n, 2F)
    rows = residues.shape[1:-2]
    sums = torch.matmul(residues.flatten(0, -3).movedim(0, 1), poles)  # (H, 2 rows, 2F)
    sums = sums.unflatten(1, (2, *rows))
    upper, lower = sums.unbind(1)  # with 2 Re w, with 2 Re(w conj x)
    count = len(grid.sin)
    return (
        -grid.sin * upper[..., count:] - grid.cos * lower[..., :count],
        grid.sin * upper[..., :count] - grid.cos * lower[..., count:],
    )


def _eliminate_last(sums: Complex, shift: Tensor) -> Complex:
    """One Sherman-Morrison step: remove the last row and column of the table of sums."""
    pivot = (1 + shift * sums[0][:, -1:, -1:], shift * sums[1][:, -1:, -1:])
    column = (sums[0][:, :-1, -1:], sums[1][:, :-1, -1:])
    row = (sums[0][:, -1:, :-1], sums[1][:, -1:, :-1])
    correction = _multiply(column, _divide(row, pivot))
    return (
        sums[0][:, :-1, :-1] - shift * correction[0],
        sums[1][:, :-1, :-1] - shift * correction[1],
    )
