"""The zero frequency of a low-rank kernel: the sum of all its samples, -c M^-1 b, M = diag(a) - P
P^H.

A Fourier basis has a pole almost at the origin. Summing over poles there cancels terms of size 1 /
|a|, and its gradient terms of size 1 / |a|^2; so the smallest pole is solved for together with the
low-rank feedback, which is well conditioned. The step cancels: this frequency is the same at every
rate.
"""

from __future__ import annotations

import torch
from torch import Tensor

MAX_DENSE = 4  # state spaces for which one dense solution is faster than many small operations


def zero_frequency(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """v with M v = b, (S, n), complex, of which -2 Re(c v) is the sum; a, b (S, n); p (R, S, n)."""
    few = len(a) <= MAX_DENSE or len(p) > 1
    return _solve_dense(a, b, p) if few else _solve_rank_one(a, b, p)


def _solve_rank_one(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """v with M v = b for one column P: a_n v_n = b_n + p_n e, e = 2 Re sum conj(p_n) v_n."""
    p = p[0]
    smallest = torch.nn.functional.one_hot(a.abs().argmin(-1), a.shape[-1]).bool()  # (S, n)
    inverse = torch.where(smallest, 0, 1 / torch.where(smallest, 1, a))
    others_b = 2 * (p.conj() * b * inverse).real.sum(
        -1
    )  # e = others_b + others_p e + 2 Re conj(p) v
    gain = 1 / (1 - 2 * (p.abs().square() * inverse).real.sum(-1))
    a_0, b_0, p_0 = (torch.where(smallest, x, 0).sum(-1) for x in (a, b, p))  # (S,)
    size = p_0.abs()
    phase = torch.where(size > 0, p_0 / torch.where(size > 0, size, 1), 1)
    f = b_0 * phase.conj() + size * others_b * gain  # with p_0 turned onto the real axis
    feedback = 2 * size * size * gain
    determinant = a_0.real.square() + a_0.imag.square() - feedback * a_0.real
    re = (a_0.real * f.real + a_0.imag * f.imag) / determinant
    im = ((a_0.real - feedback) * f.imag - a_0.imag * f.real) / determinant
    e = (others_b + 2 * size * re) * gain
    v_0 = torch.complex(re, im) * phase
    return torch.where(smallest, v_0[:, None], (b + p * e[:, None]) * inverse)


def _solve_dense(a: Tensor, b: Tensor, p: Tensor) -> Tensor:
    """The same for any number of columns, at a cost of n^3 per state space."""
    q = torch.cat((p, p.conj()), -1).movedim(0, -1)  # (S, 2n, R)
    matrix = torch.diag_embed(torch.cat((a, a.conj()), -1)) - q @ q.mH
    return torch.linalg.solve(matrix, torch.cat((b, b.conj()), -1))[:, : a.shape[-1]]
