"""The few numbers of diagonal-plus-rank-one state spaces that all their channels share.

M = diag(a) - p p^H in conjugate pairs, of which one half is stored: a, b, p (S, n), complex.
For the letters and the formula see `s4nd.kernels.low_rank`, for their use `channels.py`.
"""

from __future__ import annotations

import numpy as np

from s4nd.compiled.jit import Array, compiled, inlined

SQUARES, A_RE = 0, 1  # |a|^2 and Re a
OF_C = 2  # four numbers that turn the real part of c into residues, four for the imaginary part
OF_P = 10  # four residues of conj(p)
ZERO = 14  # two numbers that turn the parts of c into the mean of a kernel
ROWS = 16


@compiled
def prepare(
    a_real: Array, a_imag: Array, b_parts: Array, p_parts: Array, period: int
) -> tuple[Array, ...]:
    """The numbers named above, (S, ROWS, n), from A_real and A_imag (S, n), B and P (1, S, n, 2).

    For the gradient a, b, p; v (S, n) with M v = b and e (S,) = p^H v.
    """
    a = np.empty((len(a_real), a_real.shape[1]), np.complex128)
    b, p = np.empty_like(a), np.empty_like(a)
    for s in range(len(a)):
        for i in range(a.shape[1]):
            a[s, i] = complex(-np.exp(np.float64(a_real[s, i])), -a_imag[s, i])
            b[s, i] = complex(b_parts[0, s, i, 0], b_parts[0, s, i, 1])
            p[s, i] = complex(p_parts[0, s, i, 0], p_parts[0, s, i, 1])
    spaces, pairs = a.shape
    found = np.empty((spaces, ROWS, pairs))
    v, e = np.empty_like(a), np.empty(spaces)
    for s in range(spaces):
        e[s] = _solve(v, a, b, p, s)
        for i in range(pairs):
            z = a[s, i]
            found[s, SQUARES, i], found[s, A_RE, i] = z.real * z.real + z.imag * z.imag, z.real
            for j in range(4):
                right = _right_side(z, b[s, i], p[s, i], j)
                found[s, OF_C + j, i], found[s, OF_C + 4 + j, i] = 2 * right.real, -2 * right.imag
                found[s, OF_P + j, i] = 2 * (p[s, i].conjugate() * right).real
            found[s, ZERO, i] = -2 / period * v[s, i].real
            found[s, ZERO + 1, i] = 2 / period * v[s, i].imag
    return found, a, b, p, v, e


@compiled
def prepare_backward(
    a: Array, b: Array, p: Array, v: Array, e: Array, period: int, of_found: Array
) -> tuple[Array, ...]:
    """Gradients of A_real, A_imag, B and P from that of the numbers.

    Gradients of a complex z are dL/d Re z + i dL/d Im z.
    """
    of_a_real, of_a_imag = np.empty(a.shape), np.empty(a.shape)
    of_b, of_p = np.empty((1, *a.shape, 2)), np.empty((1, *a.shape, 2))
    of_v = (of_found[:, ZERO] - 1j * of_found[:, ZERO + 1]) * (-2 / period)
    conj, adjoint = a.conj(), np.empty_like(a)
    for s in range(len(a)):
        its_e = _solve(adjoint, conj, of_v, p, s)
        for i in range(a.shape[1]):
            # M v = b: the adjoint solution is the gradient of b, and -adjoint v^H that of M.
            to_a = of_found[s, A_RE, i] + 2 * of_found[s, SQUARES, i] * a[s, i]
            to_a -= adjoint[s, i] * v[s, i].conjugate()
            to_b, to_p = adjoint[s, i], adjoint[s, i] * e[s] + its_e * v[s, i]
            for j in range(4):
                of_row = 2 * of_found[s, OF_P + j, i]
                to_p += of_row * _right_side(a[s, i], b[s, i], p[s, i], j)
                to_right = 2 * complex(of_found[s, OF_C + j, i], -of_found[s, OF_C + 4 + j, i])
                to_right += of_row * p[s, i]
                of_right = to_right * a[s, i] if j % 2 else to_right
                if j < 2:
                    to_b += of_right
                else:
                    to_p += of_right
                if j % 2:
                    to_a += to_right.conjugate() * (b[s, i] if j < 2 else p[s, i])
            of_a_real[s, i], of_a_imag[s, i] = to_a.real * a[s, i].real, -to_a.imag
            of_b[0, s, i, 0], of_b[0, s, i, 1] = to_b.real, to_b.imag
            of_p[0, s, i, 0], of_p[0, s, i, 1] = to_p.real, to_p.imag
    return of_a_real, of_a_imag, of_b, of_p


@inlined
def _right_side(a: complex, b: complex, p: complex, j: int) -> complex:
    """The right-hand sides of the residues: b, b conj(a), p, p conj(a)."""
    right = b if j < 2 else p
    return right * a.conjugate() if j % 2 else right


@inlined
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
