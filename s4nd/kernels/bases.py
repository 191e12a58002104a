"""Initial state spaces (A, B, P) in conjugate pairs: A = diag(a) - P P^H.

Each basis gives half of the spectrum (Im a <= 0), the other half being its conjugate, and `first`,
the C that reads off the first basis function (a constant for the orthogonal polynomials).
Shapes are (n,) and (R, n) with n = state / 2 pairs; everything in complex128 on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

CPU = torch.device("cpu")


class StateSpace(NamedTuple):
    """One initial state space."""

    a: Tensor  # (n,)
    b: Tensor  # (n,)
    p: Tensor  # (R, n)
    first: Tensor  # (n,)


class Basis(NamedTuple):
    """A named initialisation: how it is made and how many columns P needs."""

    make: Callable[[int, int], StateSpace]  # state, copy index within the axis
    low_rank: int


def _complex(re: Tensor | float, im: Tensor) -> Tensor:
    return torch.complex(torch.as_tensor(re, dtype=torch.float64, device=CPU).expand_as(im), im)


def _numbers(count: int) -> Tensor:
    return torch.arange(count, dtype=torch.float64, device=CPU)


def legs(state: int, copy: int = 0) -> StateSpace:
    """Scaled Legendre measure: exponentially warped Legendre polynomials."""
    del copy
    q = (2 * _numbers(state) + 1).sqrt()
    a = -torch.tril(q[:, None] * q[None, :], -1) - torch.diag(_numbers(state) + 1)
    p = (_numbers(state) + 0.5).sqrt()
    skew = a + p[:, None] * p[None, :] + 0.5 * torch.eye(state, dtype=torch.float64, device=CPU)
    eigenvalues, vectors = torch.linalg.eigh(-1j * skew)  # skew = i * Hermitian
    half = slice(0, state // 2)  # ascending, so the first half has Im a < 0
    # The phase of an eigenvector is free: we make its first entry real, so that B is the same
    # everywhere.
    vectors = vectors[:, half] * torch.exp(-1j * vectors[0, half].angle())
    b = vectors.mH @ q.to(vectors.dtype)
    b = _complex(b.real, b.imag.clamp(-2, 2))  # larger ones would dominate the others
    low_rank = (vectors.mH @ p.to(vectors.dtype))[None]
    return StateSpace(_complex(-0.5, eigenvalues[half]), b, low_rank, vectors[0])


def fourier(state: int, copy: int = 0) -> StateSpace:
    """Truncated Fourier functions on a window of length 2, which is 2 / step samples."""
    del copy
    n = _numbers(state // 2).flip(0)
    b = _complex(torch.where(n > 0, 1.0, math.sqrt(0.5)), torch.zeros_like(n))
    first = torch.where(n > 0, 0.0, math.sqrt(0.5)).to(b.dtype)
    return StateSpace(_complex(0.0, -math.pi * n), b, b[None].clone(), first)


def _linear(state: int) -> Tensor:
    return -math.pi * _numbers(state // 2)


def _inverse(state: int) -> Tensor:
    return -state / math.pi * (state / (2 * _numbers(state // 2) + 1) - 1)


def _random(frequencies: Tensor) -> StateSpace:
    a = _complex(-0.5, frequencies)
    b, p = torch.randn(2, len(a), dtype=a.dtype, device=CPU)
    b = b / (2 * (b / a).abs().square().sum()).sqrt()
    return StateSpace(a, b, p[None], torch.ones_like(a))


def _diagonal(a: Tensor) -> StateSpace:
    one = torch.ones_like(a)
    # The first basis function is the slowest exponential. C is a half, because its conjugate adds
    # the same.
    first = torch.zeros_like(a)
    first[a.abs().argmin()] = 0.5
    return StateSpace(a, one, a.new_zeros(0, len(a)), first)


def _diagonal_legs(state: int, copy: int = 0) -> StateSpace:
    low_rank = legs(state, copy)
    return low_rank._replace(p=low_rank.p[:0])


def _real(state: int) -> Tensor:
    n = _numbers(state // 2)
    return _complex(-(n + 1), torch.zeros_like(n))


BASES: dict[str, Basis] = {
    "legs": Basis(legs, 1),
    "fourier": Basis(fourier, 1),
    "hippo": Basis(lambda state, copy: (legs, fourier)[copy](state), 1),
    "random-linear": Basis(lambda state, _: _random(_linear(state)), 1),
    "random-inv": Basis(lambda state, _: _random(_inverse(state)), 1),
    "diag-lin": Basis(lambda state, _: _diagonal(_complex(-0.5, _linear(state))), 0),
    "diag-inv": Basis(lambda state, _: _diagonal(_complex(-0.5, _inverse(state))), 0),
    "diag-legs": Basis(_diagonal_legs, 0),
    "diag-real": Basis(lambda state, _: _diagonal(_real(state)), 0),
}


def initial_state_spaces(basis: str, state: int, copies: int, low_rank: int) -> StateSpace:
    """State spaces of all copies, with `low_rank` columns of P (zeros beyond what the basis has).

    Shapes: a, b, first (copies, n); p (low_rank, copies, n). `hippo` gives legs to the first half
    of the copies and fourier to the second.
    """
    if basis == "hippo" and copies % 2:
        raise ValueError(
            f"basis 'hippo' is half legs, half fourier: copies must be even, got {copies}"
        )
    made = [BASES[basis].make(state, 2 * copy // copies) for copy in range(copies)]
    p = torch.stack([space.p for space in made], 1)[:low_rank]  # (R, copies, n)
    missing = p.new_zeros(low_rank - len(p), copies, state // 2)
    a, b, first = (torch.stack([getattr(s, name) for s in made]) for name in ("a", "b", "first"))
    return StateSpace(a, b, torch.cat((p, missing)), first)
