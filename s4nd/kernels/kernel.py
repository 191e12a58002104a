"""Sampling the kernel K(t) = C exp(t A) B of one axis whose A is diagonal, in real arithmetic.

Letters: H channels (one dimension or several), n conjugate pairs, K kernels per channel. Complex
parameters are (..., 2) = real, imaginary; complex intermediates are tuples (real, imaginary).
"""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor

Complex: TypeAlias = tuple[Tensor, Tensor]


def multiply(x: Complex, y: Complex) -> Complex:
    """The product of two complex numbers."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _divide(x: Complex, y: Complex) -> Complex:
    scale = 1 / (y[0] * y[0] + y[1] * y[1])
    re, im = multiply(x, (y[0], -y[1]))
    return re * scale, im * scale


def apply_bandlimit(c: Tensor, base_dt: Tensor, a_imag: Tensor, bandlimit: float) -> Tensor:
    """c (..., n, 2), zero for functions of bandlimit / 2 cycles per base sample or more."""
    frequency = base_dt * a_imag.abs() / (2 * math.pi)  # (..., n)
    return c * (frequency < bandlimit / 2).to(c.dtype)[..., None]


def two_sided(ahead: Tensor, behind: Tensor | None) -> Tensor:
    """Kernels (..., L) of both directions -> taps (..., 2 L): lags from -L to L - 1."""
    before = torch.zeros_like(ahead) if behind is None else behind.flip(-1)
    return torch.cat((before, ahead), -1)


def discretise(dt: Tensor, a: Tensor, b: Tensor, *, rule: str) -> tuple[Complex, Complex]:
    """x_l = z x_(l-1) + w u_l of x' = a x + b u: (log z, w), both (H, n).

    dt (H, 1), a and b (H or 1, n, 2).
    Zero-order hold: z = exp(dt a), w = b (z - 1) / a.
    Bilinear: z = (1 + dt a / 2) / (1 - dt a / 2), w = b dt / (1 - dt a / 2).
    """
    a_pair = (a[..., 0], a[..., 1])
    dta = (dt * a_pair[0], dt * a_pair[1])  # (H, n)
    if rule == "zoh":
        log_z = dta
        cos, half = dta[1].cos(), (dta[1] / 2).sin()
        growth = torch.expm1(dta[0])
        z_minus_1 = (growth * cos - 2 * half * half, (growth + 1) * dta[1].sin())
        w = _divide(z_minus_1, a_pair)
    else:
        denominator = (1 - dta[0] / 2, -dta[1] / 2)
        z = _divide((1 + dta[0] / 2, dta[1] / 2), denominator)
        log_z = ((z[0] * z[0] + z[1] * z[1]).log() / 2, torch.atan2(z[1], z[0]))
        w = _divide((dt.expand_as(dta[0]), torch.zeros_like(dta[0])), denominator)
    return log_z, multiply(w, (b[..., 0], b[..., 1]))


def diagonal_kernel(
    dt: Tensor, a: Tensor, b: Tensor, c: Tensor, *, length: int, rule: str
) -> Tensor:
    """2 Re sum_n c_n w_n z_n^l for l < length, with z and w of `discretise`: (K, H, length).

    dt (H, 1), a and b (H or 1, n, 2), c (K, H, n, 2).

    With l = q * width + r the power splits into z^(q width) z^r, so only 2 sqrt(length) powers are
    needed, and the sum over n becomes a matrix product.
    """
    log_z, w = discretise(dt, a, b, rule=rule)
    w = multiply(w, (c[..., 0], c[..., 1]))  # (K, H, n)
    width = math.ceil(math.sqrt(length))
    blocks = -(-length // width)
    low = _powers(log_z, width, 1)  # (H, n, width)
    high = _powers(log_z, blocks, width)  # (H, n, blocks)
    re, im = multiply((w[0][..., None], w[1][..., None]), high)  # (K, H, n, blocks)
    left = torch.cat((re, -im), -2)  # (K, H, 2n, blocks)
    right = torch.cat(low, -2)  # (H, 2n, width)
    kernel = 2 * torch.matmul(left.transpose(-1, -2), right)  # (K, H, blocks, width)
    return kernel.flatten(-2)[..., :length]


def _powers(log_z: Complex, count: int, stride: int) -> Complex:
    """z^(stride i) for i < count, by its logarithm."""
    steps = stride * torch.arange(count, dtype=log_z[0].dtype, device=log_z[0].device)
    size, angle = (log_z[0][..., None] * steps).exp(), log_z[1][..., None] * steps
    return size * angle.cos(), size * angle.sin()
