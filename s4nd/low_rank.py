"""Sampling the kernel of one axis whose A is diagonal plus low rank: M = diag(a) - P P^H.

Letters: H channels, S state spaces (channel h uses number h mod S), n conjugate pairs, K kernels
per channel, R low rank, L length, F frequencies.
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

import torch
from torch import Tensor

LONGEST_MATRIX = 512  # samples of a period that are transformed by a matrix product


def low_rank_spectrum(dt: Tensor, a: Tensor, b: Tensor, c: Tensor, p: Tensor, grid: Grid) -> Tensor:
    """Of the kernel c (I - A^period)^-1 A^l B of the bilinear system: (K, H, 2F + 1).

    Real parts at the frequencies of the grid, then imaginary parts; then the mean, which is the
    zero frequency.
    dt (H,); a and b (S, n), complex; c (K, H, n, 2), real and imaginary parts; p (R, S, n).
    """
    v = _solve(a, b, p)  # (S, n)
    zero = torch.stack((v.real, -v.imag), 1) * (-2 / grid.period)  # Re(c v) = c_re v_re - c_im v_im
    squares = a.real.square() + a.imag.square()  # (S, n)
    weights, rows = _residues(a, b, p)
    return _spectrum(dt / 2, c, squares, a.real, weights, rows, zero, grid)


class Grid:
    """The frequencies t = 2 pi / period, ..., pi of kernels of `length` samples.

    Their spectra are real parts, imaginary parts, mean: 2F + 1 numbers.
    """

    def __init__(self, period: int, length: int, device: torch.device) -> None:
        self.period, self.length = period, length
        index = torch.arange(1, period // 2 + 1, dtype=torch.float64, device=device)
        self.t = 2 * math.pi / period * index  # (F,)
        self.sin, self.cos, self.sin_full = (self.t / 2).sin(), (self.t / 2).cos(), self.t.sin()
        # Each frequency stands for its conjugate too, except pi, which is its own.
        self.weight = (2 - (2 * index == period).to(self.t.dtype)) / period
        if period <= LONGEST_MATRIX:
            position = torch.arange(length, dtype=torch.float64, device=device)[:, None] + 0.5
            phase, one = position * self.t, torch.ones_like(position)  # (L, F), (L, 1)
            columns = (self.weight * phase.cos(), -self.weight * phase.sin(), one)
            self.inverse = torch.cat(columns, -1)  # (L, 2F + 1)

    def samples(self, spectrum: Tensor) -> Tensor:
        """(..., 2F + 1) -> (..., length), by a product or, for long kernels, an FFT."""
        if self.period <= LONGEST_MATRIX:
            return torch.matmul(spectrum, self.inverse.mT)
        count = len(self.t)
        re, im, mean = spectrum[..., :count], spectrum[..., count:-1], spectrum[..., -1:]
        positive = torch.polar(torch.ones_like(self.t), self.t / 2) * torch.complex(re, im)
        values = torch.cat(((self.period * mean).to(positive.dtype), positive), -1)
        return torch.fft.irfft(values, self.period)[..., : self.length]


def frequency_grid(period: int, length: int, device: torch.device) -> Grid:
    """The constants of kernels of `length` samples that are folded over `period` samples."""
    if length > period:
        raise ValueError(
            f"a kernel folded over {period} samples has no more than that, got length {length}; "
            "give the axis a longer period"
        )
    return Grid(period, length, device)


def _solve(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """M^-1 b, (S, n): what the zero frequency, the sum -2 Re(c M^-1 b) of all samples, needs.

    A Fourier basis has a pole almost at the origin, where sums over poles would cancel. The step
    cancels too: this frequency is the same at every rate.
    """
    q = torch.cat((p, p.conj()), -1).movedim(0, -1)  # (S, 2n, R)
    matrix = torch.diag_embed(torch.cat((a, a.conj()), -1)) - q @ q.mH
    return torch.linalg.solve(matrix, torch.cat((b, b.conj()), -1))[:, : a.shape[-1]]


def _residues(a: Tensor, b: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """2 Re(w) and 2 Re(w conj a) for w = left * right, right in (b, p), two numbers a pair.

    With them w / (i s - k x) + conj(w) / (i s - k conj x) is (2 Re(w) i s - 2 Re(w conj a) k y)
    over k^2 |x|^2 - s^2 - 2 i s k Re x. For left = c: weights of its real and imaginary parts,
    (S, 2, (1 + R) 2, n); for left = conj(p): the numbers themselves, (S, R (1 + R) 2, n).
    """
    right = torch.cat((b[None], p)).transpose(0, 1)  # (S, 1 + R, n)
    right = torch.stack((right, right * a.conj()[:, None]), 2).flatten(1, 2)  # (S, (1 + R) 2, n)
    weights = 2 * torch.stack((right.real, -right.imag), 1)
    rows = 2 * (p.conj().transpose(0, 1)[:, :, None] * right[:, None]).real
    return weights, rows.flatten(1, 2)


def _spectrum(
    y: Tensor,
    c: Tensor,
    squares: Tensor,
    a_re: Tensor,
    weights: Tensor,
    rows: Tensor,
    zero: Tensor,
    grid: Grid,
) -> Tensor:
    """(K, H, 2F + 1) from y (H,), c (K, H, n, 2), |a|^2, Re a and residues."""
    each = len(y) // len(a_re)  # channels of a state space; one state space is left to broadcast
    if len(a_re) > 1:
        shared = (squares, a_re, weights, rows, zero)
        squares, a_re, weights, rows, zero = (
            x.repeat(each, *[1] * (x.dim() - 1)) for x in shared
        )  # (H, ...)
    pairs = c.double().permute(1, 0, 3, 2)  # (H, K, 2, n)
    rows_c = (pairs[..., None, :] * weights[:, None]).sum(2)  # (H, K, (1 + R) 2, n)
    right = rows_c.shape[2]
    rows = rows.view(len(rows), -1, right, rows.shape[-1]).expand(len(y), -1, -1, -1)
    rows_c = torch.cat((rows_c, rows), 1)  # (H, K + R, (1 + R) 2, n)
    y = y[:, None]
    re = (y.square() * squares)[..., None] * grid.cos.square() - grid.sin.square()  # (H, n, F)
    im = (y * a_re)[..., None] * grid.sin_full
    poles = torch.cat((re, im), -1) / (re * re + im * im).repeat(1, 1, 2)  # (H, n, 2F)
    sums = torch.matmul(rows_c.flatten(1, 2), poles)  # (H, (K + R) (1 + R) 2, 2F)
    sums = sums.view(*rows_c.shape[:2], right // 2, 2, 2, len(grid.cos))
    sums = torch.complex(sums[..., 0, :], sums[..., 1, :])  # (H, K + R, 1 + R, 2, F)
    shift = (y * grid.cos)[:, None, None]  # (H, 1, 1, F)
    table = 1j * grid.sin * sums[..., 0, :] - shift * sums[..., 1, :]  # (H, K + R, 1 + R, F)
    for _ in range(right // 2 - 1):
        row = table[:, -1:, :-1] * (shift / (1 + shift * table[:, -1:, -1:]))
        table = table[:, :-1, :-1] - table[:, :-1, -1:] * row
    values = y[..., None] * table[:, :, 0]  # (H, K, F)
    mean = (pairs * zero[:, None]).sum((2, 3))[..., None]
    return torch.cat((values.real, values.imag, mean), -1).transpose(0, 1)
