"""From the weights of a channel to the spectrum of its kernel, and back, in machine code.

Of a kernel c, and after the last one of conj(p) in its place, there are four rows of residues, two
numbers per pole pair: against b and against p. The sum of a row over the pole pairs is one number
per frequency; four of them are a group. See `s4nd.low_rank` for the letters and the formula.
"""

from __future__ import annotations

import numpy as np

from s4nd.machine_code import Array, compiled


@compiled
def forward(
    y: Array, c: Array, squares: Array, a_re: Array, weights: Array, rows_p: Array, zero: Array,
    sin: Array, cos: Array, sin_full: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Spectra (K, H, 2F), means (K, H), and sums (H, F, K + 1, 4) for the gradient.

    y (H,); c (K, H, n, 2); the rest of `state_spaces.prepare` and of the grid.
    """
    kernels, channels, pairs, _ = c.shape
    frequencies = len(sin)
    spectrum, mean = np.empty((kernels, channels, 2 * frequencies)), np.zeros((kernels, channels))
    sums = np.empty((channels, frequencies, kernels + 1, 4), np.complex128)
    rows, poles = np.empty((kernels + 1, 4, pairs)), np.empty((2, pairs))
    parts = np.empty((kernels, 2, pairs))
    for h in range(channels):
        s = h % len(squares)
        _fill_rows(rows, parts, c, h, s, weights, rows_p)
        for f in range(frequencies):
            shift = cos[f] * y[h]
            _fill_poles(poles, y[h], squares, a_re, s, sin[f], cos[f], sin_full[f])
            for k in range(kernels + 1):
                b, ba, p, pa = _sum_group(rows, k, poles)
                sums[h, f, k, 0], sums[h, f, k, 1] = b, ba
                sums[h, f, k, 2], sums[h, f, k, 3] = p, pa
            pb, pp = _against(sums, h, f, kernels, sin[f], shift)
            q = shift * pb / (1 + shift * pp)
            for k in range(kernels):
                cb, cp = _against(sums, h, f, k, sin[f], shift)
                value = y[h] * (cb - cp * q)
                spectrum[k, h, f], spectrum[k, h, frequencies + f] = value.real, value.imag
        for k in range(kernels):
            for i in range(pairs):
                mean[k, h] += parts[k, 0, i] * zero[s, 0, i] + parts[k, 1, i] * zero[s, 1, i]
    return spectrum, mean, sums


@compiled
def backward(
    y: Array, c: Array, squares: Array, a_re: Array, weights: Array, rows_p: Array, zero: Array,
    sin: Array, cos: Array, sin_full: Array, sums: Array, of_spectrum: Array, of_mean: Array,
) -> tuple[Array, ...]:  # fmt: skip
    """Gradients of y, c, |a|^2, Re a, weights, rows of P and zero."""
    kernels, channels, pairs, _ = c.shape
    frequencies = len(sin)
    of_y, of_c = np.empty_like(y), np.empty_like(c)
    of_squares, of_a_re = np.zeros_like(squares), np.zeros_like(a_re)
    of_weights, of_rows_p = np.zeros_like(weights), np.zeros_like(rows_p)
    of_zero = np.zeros_like(zero)
    rows, poles = np.empty((kernels + 1, 4, pairs)), np.empty((2, pairs))
    parts = np.empty((kernels, 2, pairs))
    of_rows, of_poles = np.empty((kernels + 1, 4, pairs)), np.empty((2, pairs))
    of_x, of_parts = np.empty((2, pairs)), np.empty((2, pairs))  # |x|^2 and Re x; of one kernel
    of_sums = np.empty((kernels + 1, 4), np.complex128)
    for h in range(channels):
        s = h % len(squares)
        _fill_rows(rows, parts, c, h, s, weights, rows_p)
        of_rows[:], of_x[:] = 0, 0
        of_y[h] = 0
        for f in range(frequencies):
            of_y[h] += _spectrum_backward(of_sums, of_spectrum, sums, h, f, y[h], sin[f], cos[f])
            _fill_poles(poles, y[h], squares, a_re, s, sin[f], cos[f], sin_full[f])
            of_poles[:] = 0
            for k in range(kernels + 1):
                _sum_backward(of_rows, of_poles, of_sums, rows, k, poles)
            _poles_backward(of_x, of_poles, poles, cos[f], sin_full[f])
        of_y[h] += _x_backward(of_squares, of_a_re, of_x, y[h], squares, a_re, s)
        for j in range(4):
            for i in range(pairs):
                of_rows_p[s, j, i] += of_rows[kernels, j, i]
        for k in range(kernels):
            _rows_backward(
                of_parts, of_weights, of_zero, of_rows, of_mean[k, h], parts, weights, zero, k, s
            )
            for i in range(pairs):
                of_c[k, h, i, 0] = of_parts[0, i]
                of_c[k, h, i, 1] = of_parts[1, i]
    return of_y, of_c, of_squares, of_a_re, of_weights, of_rows_p, of_zero


@compiled
def _spectrum_backward(
    of_sums: Array, of_spectrum: Array, sums: Array, h: int, f: int,
    y: float, sin: float, cos: float,
) -> float:  # fmt: skip
    """Writes the gradients of the sums of a frequency; returns that of y."""
    kernels, frequencies = len(of_spectrum), of_spectrum.shape[2] // 2
    shift = cos * y
    pb, pp = _against(sums, h, f, kernels, sin, shift)
    gain = 1 / (1 + shift * pp)
    ratio = shift * gain
    q = ratio * pb
    of_q, of_y, of_shift = 0j, 0.0, 0.0
    for k in range(kernels):
        cb, cp = _against(sums, h, f, k, sin, shift)
        g = complex(of_spectrum[k, h, f], of_spectrum[k, h, frequencies + f])
        of_y += (g.conjugate() * (cb - cp * q)).real
        g = g * y
        of_q -= g * cp.conjugate()
        of_low = -g * q.conjugate()
        of_shift += _against_backward(of_sums, sums, h, f, k, sin, shift, g, of_low)
    of_ratio = of_q * pb.conjugate()
    of_shift += (of_ratio * (gain * gain).conjugate()).real
    of_b, of_p = of_q * ratio.conjugate(), -of_ratio * (ratio * ratio).conjugate()
    of_shift += _against_backward(of_sums, sums, h, f, kernels, sin, shift, of_b, of_p)
    return of_y + cos * of_shift


@compiled
def _x_backward(
    of_squares: Array, of_a_re: Array, of_x: Array, y: float, squares: Array, a_re: Array, s: int
) -> float:
    """x = y a: adds to the gradients of |a|^2 and Re a; returns that of y."""
    of_y = 0.0
    for i in range(of_x.shape[1]):
        of_y += of_x[1, i] * a_re[s, i] + 2 * y * of_x[0, i] * squares[s, i]
    for i in range(of_x.shape[1]):
        of_squares[s, i] += y * y * of_x[0, i]
        of_a_re[s, i] += y * of_x[1, i]
    return of_y


@compiled
def _fill_rows(
    rows: Array, parts: Array, c: Array, h: int, s: int, weights: Array, rows_p: Array
) -> None:
    """The parts of every kernel of a channel and their residues, then those of conj(p)."""
    kernels, _, pairs, _ = c.shape
    for k in range(kernels):
        for i in range(pairs):
            parts[k, 0, i] = c[k, h, i, 0]
            parts[k, 1, i] = c[k, h, i, 1]
        for j in range(4):
            for i in range(pairs):
                rows[k, j, i] = (
                    parts[k, 0, i] * weights[s, 0, j, i] + parts[k, 1, i] * weights[s, 1, j, i]
                )
    for j in range(4):
        for i in range(pairs):
            rows[kernels, j, i] = rows_p[s, j, i]


@compiled
def _rows_backward(
    of_parts: Array, of_weights: Array, of_zero: Array, of_rows: Array, of_mean: float,
    parts: Array, weights: Array, zero: Array, k: int, s: int,
) -> None:  # fmt: skip
    """Of kernel k of a channel: writes the gradient of its parts, adds to the others."""
    for part in range(2):
        for i in range(parts.shape[2]):
            of_parts[part, i] = of_mean * zero[s, part, i]
        for i in range(parts.shape[2]):
            of_zero[s, part, i] += of_mean * parts[k, part, i]
        for j in range(4):
            for i in range(parts.shape[2]):
                of_parts[part, i] += of_rows[k, j, i] * weights[s, part, j, i]
            for i in range(parts.shape[2]):
                of_weights[s, part, j, i] += of_rows[k, j, i] * parts[k, part, i]


@compiled
def _fill_poles(
    poles: Array, y: float, squares: Array, a_re: Array, s: int,
    sin: float, cos: float, sin_full: float,
) -> None:  # fmt: skip
    """1 / (k^2 |x|^2 - s^2 - 2 i s k Re x), x = y a: real parts, then imaginary parts."""
    for i in range(poles.shape[1]):
        re = y * y * squares[s, i] * cos * cos - sin * sin
        im = y * a_re[s, i] * sin_full
        scale = 1 / (re * re + im * im)
        poles[0, i] = re * scale
        poles[1, i] = im * scale


@compiled
def _poles_backward(
    of_x: Array, of_poles: Array, poles: Array, cos: float, sin_full: float
) -> None:
    """Adds to the gradients of |x|^2 and Re x: with w the pole pair, dw = -w^2 d(1/w)."""
    for i in range(poles.shape[1]):
        re = poles[0, i] * poles[0, i] - poles[1, i] * poles[1, i]
        im = 2 * poles[0, i] * poles[1, i]
        of_x[0, i] -= (of_poles[0, i] * re + of_poles[1, i] * im) * cos * cos
        of_x[1, i] += (of_poles[1, i] * re - of_poles[0, i] * im) * sin_full


@compiled
def _sum_group(rows: Array, k: int, poles: Array) -> tuple[complex, complex, complex, complex]:
    """The sums of four rows over the pole pairs."""
    b_re = b_im = ba_re = ba_im = p_re = p_im = pa_re = pa_im = 0.0
    for i in range(poles.shape[1]):
        re, im = poles[0, i], poles[1, i]
        b_re += rows[k, 0, i] * re
        b_im += rows[k, 0, i] * im
        ba_re += rows[k, 1, i] * re
        ba_im += rows[k, 1, i] * im
        p_re += rows[k, 2, i] * re
        p_im += rows[k, 2, i] * im
        pa_re += rows[k, 3, i] * re
        pa_im += rows[k, 3, i] * im
    return complex(b_re, b_im), complex(ba_re, ba_im), complex(p_re, p_im), complex(pa_re, pa_im)


@compiled
def _sum_backward(
    of_rows: Array, of_poles: Array, of_sums: Array, rows: Array, k: int, poles: Array
) -> None:
    """Adds to the gradients of four rows and of the poles."""
    for j in range(4):
        re, im = of_sums[k, j].real, of_sums[k, j].imag
        for i in range(poles.shape[1]):
            of_rows[k, j, i] += poles[0, i] * re + poles[1, i] * im
    b, ba, p, pa = of_sums[k, 0], of_sums[k, 1], of_sums[k, 2], of_sums[k, 3]
    for i in range(poles.shape[1]):
        of_poles[0, i] += rows[k, 0, i] * b.real + rows[k, 1, i] * ba.real
        of_poles[0, i] += rows[k, 2, i] * p.real + rows[k, 3, i] * pa.real
    for i in range(poles.shape[1]):
        of_poles[1, i] += rows[k, 0, i] * b.imag + rows[k, 1, i] * ba.imag
        of_poles[1, i] += rows[k, 2, i] * p.imag + rows[k, 3, i] * pa.imag


@compiled
def _against(
    sums: Array, h: int, f: int, k: int, sin: float, shift: float
) -> tuple[complex, complex]:
    """Of one group: against b, and against p."""
    b, ba, p, pa = sums[h, f, k, 0], sums[h, f, k, 1], sums[h, f, k, 2], sums[h, f, k, 3]
    return 1j * sin * b - shift * ba, 1j * sin * p - shift * pa


@compiled
def _against_backward(
    of_sums: Array, sums: Array, h: int, f: int, k: int, sin: float, shift: float,
    of_b: complex, of_p: complex,
) -> float:  # fmt: skip
    """Writes the gradients of the sums; returns that of the shift."""
    of_sums[k, 0], of_sums[k, 1] = -1j * sin * of_b, -shift * of_b
    of_sums[k, 2], of_sums[k, 3] = -1j * sin * of_p, -shift * of_p
    return -(of_b * sums[h, f, k, 1].conjugate() + of_p * sums[h, f, k, 3].conjugate()).real
