"""The few numbers of diagonal-plus-rank-one state spaces that all their channels share.

M = diag(a) - p p^H in conjugate pairs, of which one half is stored: a, b, p (S, n), complex.
See `s4nd.low_rank` for the letters and the formula, `s4nd.channels` for what is done with them.
"""

from __future__ import annotations

import numpy as np

from s4nd.machine_code import Array, compiled


@compiled
def prepare(a: Array, b: Array, p: Array, period: int) -> tuple[Array, ...]:
    """|a|^2, Re a, and what turns the parts of c into residues and into the mean of a kernel.

    (S, n), (S, n), (S, 2, 4, n), the residues (S, 4, n) of conj(p), (S, 2, n); for the gradient v
    (S, n) with M v = b and e (S,) = p^H v.
    """
    spaces, pairs = a.shape
    squares, a_re = np.empty((spaces, pairs)), np.empty((spaces, pairs))
    weights, rows = np.empty((spaces, 2, 4, pairs)), np.empty((spaces, 4, pairs))
    zero = np.empty((spaces, 2, pairs))
    v, e = np.empty_like(a), np.empty(spaces)
    for s in range(spaces):
        e[s] = _solve(v, a, b, p, s)
        for i in range(pairs):
            z = a[s, i]
            squares[s, i], a_re[s, i] = z.real * z.real + z.imag * z.imag, z.real
            for j in range(4):
                right = _right_side(z, b[s, i], p[s, i], j)
                weights[s, 0, j, i], weights[s, 1, j, i] = 2 * right.real, -2 * right.imag
                rows[s, j, i] = 2 * (p[s, i].conjugate() * right).real
            zero[s, 0, i], zero[s, 1, i] = -2 / period * v[s, i].real, 2 / period * v[s, i].imag
    return squares, a_re, weights, rows, zero, v, e


@compiled
def prepare_backward(
    a: Array, b: Array, p: Array, period: int, v: Array, e: Array,
    of_squares: Array, of_a_re: Array, of_weights: Array, of_rows: Array, of_zero: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of a, b and p: (S, n) each."""
    of_a, of_b, of_p = np.empty_like(a), np.empty_like(b), np.empty_like(p)
    of_v = (of_zero[:, 0] - 1j * of_zero[:, 1]) * (-2 / period)
    conj, adjoint = a.conj(), np.empty_like(a)
    for s in range(len(a)):
        its_e = _solve(adjoint, conj, of_v, p, s)
        for i in range(a.shape[1]):
            # M v = b: the adjoint solution is the gradient of b, and -adjoint v^H that of M.
            to_a = of_a_re[s, i] + 2 * of_squares[s, i] * a[s, i]
            to_a -= adjoint[s, i] * v[s, i].conjugate()
            to_b, to_p = adjoint[s, i], adjoint[s, i] * e[s] + its_e * v[s, i]
            for j in range(4):
                of_row = 2 * of_rows[s, j, i]
                to_p += of_row * _right_side(a[s, i], b[s, i], p[s, i], j)
                to_right = 2 * complex(of_weights[s, 0, j, i], -of_weights[s, 1, j, i])
                to_right += of_row * p[s, i]
                of_right = to_right * a[s, i] if j % 2 else to_right
                if j < 2:
                    to_b += of_right
                else:
                    to_p += of_right
                if j % 2:
                    to_a += to_right.conjugate() * (b[s, i] if j < 2 else p[s, i])
            of_a[s, i], of_b[s, i], of_p[s, i] = to_a, to_b, to_p
    return of_a, of_b, of_p


@compiled
def _right_side(a: complex, b: complex, p: complex, j: int) -> complex:
    """What residues are taken against: b, b conj(a), p, p conj(a)."""
    right = b if j < 2 else p
    return right * a.conjugate() if j % 2 else right


@compiled
def _solve(v: Array, a: Array, b: Array, p: Array, s: int) -> float:
    """Writes v with a v - p e = b; returns e = 2 Re sum conj(p) v.

    A Fourier basis has a pole almost at the origin. Dividing by it would cancel terms of size
    1 / |a|, so this one is solved for together with e, which is well conditioned.
    """
    least = np.abs(a[s]).argmin()
    others_b = others_p = 0.0  # e = others_b + others_p e + 2 Re conj(p) v of the smallest pole
    for i in range(a.shape[1]):
        if i != least:
            others_b += 2 * (p[s, i].conjugate() * b[s, i] / a[s, i]).real
            others_p += 2 * (p[s, i].conjugate() * p[s, i] / a[s, i]).real
    gain, size, z = 1 / (1 - others_p), abs(p[s, least]), a[s, least]
    phase = p[s, least] / size if size > 0 else 1 + 0j
    f = b[s, least] * phase.conjugate() + size * others_b * gain  # p is turned to the real axis
    feedback = 2 * size * size * gain
    determinant = z.real * z.real + z.imag * z.imag - feedback * z.real
    re = (z.real * f.real + z.imag * f.imag) / determinant
    im = ((z.real - feedback) * f.imag - z.imag * f.real) / determinant
    e = (others_b + 2 * size * re) * gain
    for i in range(a.shape[1]):
        v[s, i] = (b[s, i] + p[s, i] * e) / a[s, i]
    v[s, least] = complex(re, im) * phase
    return e
