"""Convolving a signal with separable kernels, by matrix products or by FFT.

Taps of an axis are (outputs, channels, 2 L) with lag 0 at index L: lags -L ... L - 1.
outputs = groups x rank. Depthwise, groups is the multiplier m and output channel (m, h) is
channel h under kernel (m, h); dense, it is the number of output channels, summed over the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from s4nd import compiled


class Mixing(NamedTuple):
    """How the kernels of a layer are combined over rank and channels."""

    groups: int
    rank: int
    dense: bool


def lag_window(taps: Tensor, size: int) -> Tensor:
    """Taps for exactly the lags -(size - 1) ... size - 1 of a signal of `size` samples."""
    missing = size - taps.shape[-1] // 2  # at least 0: kernels are never longer than the signal
    return functional.pad(taps, (missing - 1, missing))


def toeplitz(taps: Tensor, size: int) -> Tensor:
    """T[i, j] = tap of lag i - j: (..., size, size)."""
    if compiled.usable(taps):
        return compiled.toeplitz_matrices(taps, size)
    # One row, repeated without its last entry, moves by one from row to row.
    missing, width = size - taps.shape[-1] // 2, 2 * size
    row = functional.pad(taps, (missing, missing)).flip(-1)  # lags size - 1 ... -size
    rows = row[..., None, :].expand(*row.shape[:-1], size, width).flatten(-2)
    shifted = torch.unflatten(rows[..., : size * (width - 1)], -1, (size, width - 1))
    return shifted[..., size - 1 :].contiguous()


def repeat_ends(matrix: Tensor, taps: Tensor) -> Tensor:
    """The Toeplitz matrix of a signal whose first and last sample are repeated beyond its ends.

    matrix (..., size, size) of taps (..., 2 L): the taps of a row that fall before the signal are
    added to its first column, those that fall after the signal to its last.
    """
    size, half = matrix.shape[-1], taps.shape[-1] // 2
    lags = torch.arange(-half, half, device=taps.device)[:, None]
    reached = torch.arange(size, device=taps.device) - lags  # (2 L, size): row i minus lag
    before = taps @ (reached < 0).to(taps.dtype)  # (..., size)
    after = taps @ (reached >= size).to(taps.dtype)
    left = functional.pad(before[..., None], (0, size - 1))
    return matrix + left + functional.pad(after[..., None], (size - 1, 0))


def convolve_matmul(
    signal: Tensor, matrices: Sequence[Tensor], skip: Tensor, mixing: Mixing
) -> Tensor:
    """One product per axis and channel with the Toeplitz matrix of that axis, plus the skip.

    signal (batch, channels, *axes); matrices one per axis, (rank groups, channels, size, size).

    Channels lead, so that each product is one large matrix per channel. The last axis is multiplied
    from the right, the others from the left, each moved next to the channels. For two axes that is
    the layout (channels, height, batch, width), and nothing is moved between the products.
    """
    count = len(matrices)
    if mixing == (1, 1, False) and count > 1 and compiled.usable(signal):
        return compiled.separable_product(signal, skip[0], [m[0] for m in matrices])
    by_rank = [_terms(m, mixing) for m in matrices]
    order = (1, 2, 0) if count == 1 else (1, *range(2, count + 1), 0, count + 1)
    x = signal.permute(order)  # (channels, *axes but the last, batch, last)
    inverse = sorted(range(count + 2), key=order.__getitem__)
    y = _skip_term(x, skip, dense=mixing.dense)  # (groups channels or groups, first axis, ...)
    for term in range(mixing.rank):
        first, *others = [m[term] for m in by_rank]  # (groups, channels, size, size)
        z = x.movedim(max(count - 1, 1), 1)
        if others:
            z = _from_right(z, others.pop())
        else:
            z = z.expand(mixing.groups, *z.shape).flatten(0, 1)
        while others:
            z = _from_left(others.pop(), z).movedim(count - 1, 1)
        y = _add_from_left(y, first, z, dense=mixing.dense)
    return y.permute(inverse)


def _terms(matrix: Tensor, mixing: Mixing) -> Sequence[Tensor]:
    """(rank groups, ...) -> one (groups, ...) for each rank."""
    return [matrix] if mixing.rank == 1 else torch.unflatten(matrix, 0, (mixing.rank, -1)).unbind(0)


def _skip_term(x: Tensor, skip: Tensor, *, dense: bool) -> Tensor:
    """skip (groups, channels) times x (channels, ...); dense, summed over channels."""
    if len(skip) == 1 and not dense:  # without the groups: some runtimes take five dimensions
        return skip[0][(...,) + (None,) * (x.dim() - 1)] * x
    scaled = skip[(...,) + (None,) * (x.dim() - 1)] * x[None]
    return scaled.sum(1) if dense else scaled.flatten(0, 1)


def _from_right(x: Tensor, matrix: Tensor) -> Tensor:
    """Along the last axis: x (channels, ..., size), matrix (groups, channels, size, size)."""
    rows = x.flatten(1, -2)
    if len(matrix) == 1:
        z = torch.bmm(rows, matrix.squeeze(0).mT)
    else:
        z = torch.matmul(rows, matrix.mT).flatten(0, 1)
    return z.view(len(z), *x.shape[1:])  # (groups channels, ..., size)


def _from_left(matrix: Tensor, z: Tensor) -> Tensor:
    """Along the first axis after the channels: z (groups channels, size, ...)."""
    return torch.bmm(matrix.flatten(0, 1), z.flatten(2)).view(z.shape)


def _add_from_left(y: Tensor, matrix: Tensor, z: Tensor, *, dense: bool) -> Tensor:
    """y + matrix z along the first axis, summed over channels if dense."""
    if dense:
        groups, channels, size, _ = matrix.shape
        matrix = matrix.transpose(1, 2).reshape(groups, size, channels * size)
        z = z.reshape(groups, channels * size, *z.shape[2:])
    else:
        matrix = matrix.flatten(0, 1)
    y = y.expand(len(matrix), *y.shape[1:])
    return torch.baddbmm(y.flatten(2), matrix, z.flatten(2)).view(y.shape)


def convolve_fft(
    signal: Tensor,
    taps: Sequence[Tensor],
    skip: Tensor,
    mixing: Mixing,
    repeats: Sequence[bool] = (),
) -> Tensor:
    """The same convolution and skip by a zero-padded N-D transform.

    signal (batch, channels, *axes); taps one per axis, (rank groups, channels, 2 L); repeats: the
    axes along which the end samples are repeated beyond the ends (no axis when empty).
    """
    through = _skip_term(signal.transpose(0, 1), skip, dense=mixing.dense).transpose(0, 1)
    margins = [0] * len(taps)
    for axis in [axis for axis, repeated in enumerate(repeats) if repeated]:
        size, margins[axis] = signal.shape[2 + axis], taps[axis].shape[-1] // 2
        places = torch.arange(-margins[axis], size + margins[axis], device=signal.device)
        signal = signal.index_select(2 + axis, places.clamp(0, size - 1))
    sizes = signal.shape[2:]
    padded = [_fast_length(n + t.shape[-1] // 2) for n, t in zip(sizes, taps, strict=True)]
    dims = tuple(range(-len(sizes), 0))
    spectrum = torch.fft.rfftn(signal, s=padded, dim=dims)  # (batch, channels, *frequencies)
    kernel: Tensor | None = None
    for axis, tap in enumerate(taps):
        transform = torch.fft.rfft if axis == len(taps) - 1 else torch.fft.fft
        factor = transform(_circular(tap, padded[axis]))  # (outputs, channels, frequencies)
        factor = factor.view(*factor.shape[:2], *_only(axis, len(taps)))
        kernel = factor if kernel is None else kernel * factor
    assert kernel is not None
    kernel = kernel.view(mixing.rank, mixing.groups, *kernel.shape[1:]).sum(0)
    if mixing.dense:
        result = torch.einsum("bh...,oh...->bo...", spectrum, kernel)
    else:
        result = (spectrum.unsqueeze(1) * kernel).flatten(1, 2)
    out = torch.fft.irfftn(result, s=padded, dim=dims)
    inside = [slice(margin, n - margin) for margin, n in zip(margins, sizes, strict=True)]
    return out[(..., *inside)] + through


def _only(axis: int, count: int) -> list[int]:
    return [-1 if i == axis else 1 for i in range(count)]


def _circular(taps: Tensor, size: int) -> Tensor:
    """Lag l at index l mod size."""
    half = taps.shape[-1] // 2
    return functional.pad(taps, (0, size - 2 * half)).roll(-half, -1)


def _fast_length(minimum: int) -> int:
    """The smallest even number at or above `minimum` without a prime factor above 7."""
    length = minimum + minimum % 2
    while not _is_smooth(length):
        length += 2
    return length


def _is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7):
        while number % prime == 0:
            number //= prime
    return number == 1


def separable_kernel(taps: Sequence[Tensor], mixing: Mixing) -> Tensor:
    """The N-D kernel: sum over rank of outer products, (groups, channels, *lags)."""
    letters = "abcdefgh"[: len(taps)]
    spec = ",".join(f"rgz{axis}" for axis in letters) + f"->gz{letters}"
    factors = [t.reshape(mixing.rank, mixing.groups, *t.shape[1:]) for t in taps]
    return torch.einsum(spec, *factors)
