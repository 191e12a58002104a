"""The spectrum of kernels whose A is diagonal plus low rank, M = diag(a) - P P^H.

Letters: S state spaces, E channels of each, H = S E, n conjugate pairs, K kernels per channel,
R low rank, F frequencies. A complex number is two real ones, because compilers, exporters and some
devices have no complex tensors: a tuple of two tensors, or one more dimension of 2 (real,
imaginary). Parameters have it last, (n, 2). Here it comes before, (2, n), so that sums over it run
along whole rows.

On the roots of unity w of order `period`, the sum over l of k[l] w^l is c (I - w A)^-1 B, because c
already contains the factor (I - A^period). With w = exp(-i t), s = sin(t/2), k = cos(t/2), y = dt/2
it equals exp(i t/2) y c [i s - k y M]^-1 b: finite at every t. The diagonal part of the inverse is
a sum over pole pairs, and the low-rank part follows by Woodbury, one column of P at a time.

Poles can lie within 1e-4 of the imaginary axis, where the low-rank correction cancels sums that are
10,000 times larger than the result: everything here is computed in `accurate_dtype`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from s4nd.kernels.grid import Grid
from s4nd.kernels.kernel import Complex, multiply


def accurate_dtype(device: torch.device) -> torch.dtype:
    """Double precision, except on MPS, which has none."""
    return torch.float32 if device.type == "mps" else torch.float64


class SharedNumbers(NamedTuple):
    """Numbers that all channels of a state space share; the first dimension is S."""

    poles: Tensor  # (S, n, 2): |a|^2 and Re a
    weights: Tensor  # (S, (1 + R) 2, 2, n): turn the parts of c into residues
    rows: Tensor  # (S, R, (1 + R) 2, n): the residues of conj(p)
    zero: Tensor  # (S, 2, n): turn the parts of c into the zero frequency


def shared_numbers(a: Complex, b: Tensor, p: Tensor) -> SharedNumbers:
    """From a, two tensors (S, n), b (S, n, 2) and p (R, S, n, 2).

    A pole pair w / (i s - k x) + conj(w) / (i s - k conj x), with x = y a and w = left * right, is
    (2 Re(w) i s - 2 Re(w conj a) k y) / (k^2 |x|^2 - s^2 - 2 i s k Re x). So every left (c and
    conj p) has two residues with every right (b and p): with right, and with right conj(a).
    Re(u v) is the dot product of u and conj(v), so everything here is conjugated.
    """
    squares = a[0] * a[0] + a[1] * a[1]
    re, im = torch.cat((b[None], p)).unbind(-1)
    im = -im
    right = torch.stack((re, im), -2)  # conjugated: (1 + R, S, 2, n)
    turned = torch.stack(multiply((re, im), a), -2)
    weights = 2 * torch.stack((right, turned), 1).flatten(0, 1).transpose(0, 1)
    rows = (right[1:].transpose(0, 1)[:, :, None] * weights[:, None]).sum(-2)
    v = _solve_rank_one(squares, right, turned) if len(p) == 1 else _solve(a, b, p)
    return SharedNumbers(torch.stack((squares, a[0]), -1), weights, rows, -2 * v)


def _solve_rank_one(squares: Tensor, right: Tensor, turned: Tensor) -> Tensor:
    """The conjugate of v = M^-1 b (S, 2, n): a v - p e = b with e = 2 Re sum conj(p) v.

    right: conjugates of b and p; turned: those of b conj(a) and p conj(a).
    A Fourier basis has a pole almost at the origin. Dividing by it would cancel terms of size
    1 / |a|, so the equation of the smallest pole is solved together with that of e.
    """
    places = torch.arange(squares.shape[-1], device=squares.device)
    smallest = places == squares.argmin(-1, keepdim=True)  # (S, n)
    (b, p), (b_turned, p_turned) = right.unbind(0), turned.unbind(0)
    terms = 2 * (p * turned).sum(-2)  # (2, S, n): e = sum of (terms of b + e terms of p) / |a|^2
    others = (terms / squares).masked_fill(smallest, 0).sum(-1, keepdim=True)  # (2, S, 1)
    (of_b, of_p), (b_terms, p_terms) = others.unbind(0), terms.unbind(0)
    gain = 1 - of_p
    scale = squares * gain - p_terms  # above 0, since Re a is below 0
    e = torch.where(smallest, (squares * of_b + b_terms) / scale, 0).sum(-1, keepdim=True)
    p_re, p_im = p.unbind(-2)
    ip = torch.stack((-p_im, p_re), -2)
    cross = -2 * (ip * b).sum(-2, keepdim=True)
    alone = b_turned * gain[:, None] + p_turned * of_b[:, None] + cross * ip
    all_others = b_turned + p_turned * e[:, None]
    return torch.where(smallest[:, None], alone / scale[:, None], all_others / squares[:, None])


def _solve(a: Complex, b: Tensor, p: Tensor) -> Tensor:
    """The same for any number of columns of P: real and imaginary parts are 2n real unknowns."""
    re, im = torch.diag_embed(a[0]), torch.diag_embed(a[1])
    matrix = torch.cat((torch.cat((re, -im), -1), torch.cat((im, re), -1)), -2)  # (S, 2n, 2n)
    columns = p.permute(1, 3, 2, 0).flatten(1, 2)  # (S, 2n, R)
    matrix = matrix - 2 * columns @ columns.mT
    re, im = torch.linalg.solve(matrix, b.transpose(-1, -2).flatten(1)).chunk(2, -1)
    return torch.stack((re, -im), -2)


def pole_sums(y: Tensor, c: Tensor, shared: SharedNumbers, grid: Grid) -> Tensor:
    """Every left against every right, summed over pole pairs: (K + R, 1 + R, 4, S E F).

    y = dt / 2 (S, E); c (S, E, K, 2, n). The four are real and imaginary parts of the sums against
    right, and those against right conj(a).
    """
    rows = (c[:, :, :, None] * shared.weights[:, None, None]).sum(-2)  # (S, E, K, (1 + R) 2, n)
    of_p = shared.rows[:, None].expand(-1, rows.shape[1], -1, -1, -1)
    rows = torch.cat((rows, of_p), 2)  # (S, E, K + R, (1 + R) 2, n)
    steps = torch.stack((y * y, y), -1)  # (S, E, 2)
    poles = steps[:, :, None] * shared.poles[:, None]  # (S, E, n, 2): |x|^2 and Re x
    poles = poles[..., None] * grid.waves - grid.offset  # (S, E, n, 2, F)
    poles = poles / (poles * poles).sum(-2, keepdim=True)
    sums = torch.matmul(rows.flatten(2, 3), poles.flatten(3))  # (S, E, (K + R) (1 + R) 2, 2F)
    lefts, rights = rows.shape[2], rows.shape[3] // 2
    sums = sums.view(*sums.shape[:2], lefts, rights, 4, -1)
    return sums.permute(2, 3, 4, 0, 1, 5).flatten(3)


def eliminate(sums: Tensor, sin: Tensor, shift: Tensor) -> Tensor:
    """c [i s - k y M]^-1 b, (K, 2, N), of N frequencies with s = sin and k y = shift, both (N,).

    sums (K + R, 1 + R, 4, N). One column of P after the other is eliminated by Woodbury.
    """
    re, im, turned_re, turned_im = sums.unbind(2)
    table = (-sin * im - shift * turned_re, sin * re - shift * turned_im)
    for column in reversed(range(sums.shape[1] - 1)):
        table = _without_column(table, column, shift)
    return torch.stack(table, 2).squeeze(1)


def _without_column(table: Complex, column: int, shift: Tensor) -> Complex:
    """The table without its last left and its last right, which are a column of P."""
    lefts, rights = [table[0].shape[0] - 1, 1], [column + 1, 1]
    quarters: list[list[Tensor]] = []
    for part in table:
        others, p = torch.split(part, lefts)
        quarters.append([*torch.split(others, rights, 1), *torch.split(p, rights, 1)])
    kept, against_p, of_p, square = zip(*quarters, strict=True)
    re, im = 1 + shift * square[0], shift * square[1]
    scale = shift / (re * re + im * im)
    q = multiply(of_p, (re * scale, -im * scale))
    correction = multiply(against_p, q)
    return kept[0] - correction[0], kept[1] - correction[1]


def spectrum(values: Tensor, y: Tensor, c: Tensor, shared: SharedNumbers, grid: Grid) -> Tensor:
    """The spectrum of the kernel c (I - A^period)^-1 A^l B, bilinear: (S, E, K, 2F + 1).

    Real parts at the frequencies of the grid, then imaginary parts; then the mean, which is the
    zero frequency. values of `eliminate`, (K, 2, S E F).
    """
    values = values.view(*values.shape[:2], *y.shape, -1).permute(2, 3, 0, 1, 4)  # (S, E, K, 2, F)
    values = (values * y[..., None, None, None]).flatten(3)
    mean = (c * shared.zero[:, None, None]).sum((-2, -1)) / grid.period  # (S, E, K)
    return torch.cat((values, mean[..., None]), -1)


class Part(NamedTuple):
    """Channels with kernels of one length, see `low_rank_taps`."""

    y: Tensor  # (S, E): half the step
    c: Tensor  # (S, E, outputs, directions, 2, n)
    grid: Grid


def low_rank_taps(parts: Sequence[Part], shared: Sequence[SharedNumbers]) -> list[Tensor]:
    """Taps (outputs, S, E, 2 L) of parts that have the same numbers of kernels and columns of P."""
    flat = [part.c.flatten(2, 3) for part in parts]  # (S, E, K, 2, n)
    each = list(zip(parts, flat, shared, strict=True))
    sums = [pole_sums(part.y, c, numbers, part.grid) for part, c, numbers in each]
    shifts = [(part.y[..., None] * part.grid.cos).flatten() for part in parts]
    sines = [part.grid.sin.expand(*part.y.shape, -1).flatten() for part in parts]
    values = eliminate(join(sums, -1), join(sines, 0), join(shifts, 0))
    found = []
    for own, (part, c, numbers) in zip(
        torch.split(values, [len(x) for x in sines], -1), each, strict=True
    ):
        own = spectrum(own, part.y, c, numbers, part.grid)
        found.append(part.grid.taps(torch.unflatten(own, 2, part.c.shape[2:4])).movedim(2, 0))
    return found


def join(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """`torch.cat`, without a copy if there is only one."""
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors), dim)
