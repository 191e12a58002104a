"""From the weights of a channel to the spectrum of its kernels, and the gradient back.

Every kernel c has four rows of residues: two numbers per pole pair against b, two against p. One
more group of four rows, after those of the last kernel, has conj(p) in place of c. The sum of a row
over the pole pairs is one number per frequency; four of these sums are a group. For the letters and
the formula see `s4nd.kernels.low_rank`.
"""

from __future__ import annotations

import numpy as np

from s4nd.compiled.jit import Array, Team, compiled, in_parallel, inlined, take
from s4nd.compiled.pole_pairs import (
    LANES,
    add_group,
    add_mean,
    fill_poles,
    fill_rows,
    group_backward,
    load_parts,
    load_space,
    poles_backward,
    rows_backward,
    rows_of_p_backward,
    store_parts,
    store_space,
    x_backward,
)

SHARES = 16  # parts of the work; fixed, so that sums do not depend on the number of threads


@compiled
def forward(
    log_dt: Array, c: Array, rate: float, spaces: Array, waves: Array,
    spectrum: Array, sums: Array, team: Team,
) -> None:  # fmt: skip
    """Writes spectra (outputs, H, directions, 2F + 1), and sums (H, F, K + 1, 4) for the gradient.

    log_dt (H, 1); c (directions outputs, H, n, 2); spaces of `state_spaces.prepare`;
    waves (3, F): sin and cos of half the angle, sin of the whole. A spectrum is real parts,
    imaginary parts, mean.
    """
    y = _steps(log_dt, rate)
    in_parallel(team, _forward, (np.zeros(1, np.int64), y, c, spaces, waves, spectrum, sums))


@inlined
def _forward(
    counter: Array, y: Array, c: Array, spaces: Array, waves: Array, spectrum: Array, sums: Array
) -> None:
    """The share of one thread."""
    kernels, channels, pairs, _ = c.shape
    blocks = -(-pairs // LANES)
    space = np.zeros((blocks, spaces.shape[1], LANES))
    parts = np.zeros((kernels, 2, LANES))
    rows, poles = np.empty((kernels + 1, 4, LANES)), np.empty((2, LANES))
    shares = _shares(channels, len(spaces))
    share = take(counter)
    while share < len(spaces) * shares:
        load_space(space, spaces, share // shares)
        for h in _channels(share, shares, channels, len(spaces)):
            sums[h] = 0
            spectrum[:, h, :, 2 * waves.shape[1]] = 0
            for q in range(blocks):
                load_parts(parts, c, h, q)
                fill_rows(rows, parts, space, q)
                for f in range(waves.shape[1]):
                    fill_poles(poles, y[h], space, q, waves, f)
                    for k in range(kernels + 1):
                        add_group(sums, h, f, rows, k, poles)
                for k in range(kernels):
                    add_mean(spectrum, h, parts, k, space, q)
            for f in range(waves.shape[1]):
                _fill_spectrum(spectrum, sums, h, f, y[h], waves)
        share = take(counter)


@compiled
def backward(
    log_dt: Array, c: Array, rate: float, spaces: Array, waves: Array,
    sums: Array, of_spectrum: Array, team: Team,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Gradients of log_dt, c and the state spaces, these in parts: (S, parts, ...)."""
    shares = _shares(len(log_dt), len(spaces))
    y, of_log_dt, of_c = _steps(log_dt, rate), np.empty_like(log_dt), np.empty_like(c)
    of_spaces = np.empty((len(spaces), shares, spaces.shape[1], spaces.shape[2]))
    given = (np.zeros(1, np.int64), y, c, spaces, waves, sums, of_spectrum)
    in_parallel(team, _backward, (*given, of_log_dt, of_c, of_spaces))
    return of_log_dt, of_c, of_spaces


@inlined
def _backward(
    counter: Array, y: Array, c: Array, spaces: Array, waves: Array,
    sums: Array, of_spectrum: Array, of_log_dt: Array, of_c: Array, of_spaces: Array,
) -> None:  # fmt: skip
    """The share of one thread."""
    kernels, channels, pairs, _ = c.shape
    blocks, frequencies = -(-pairs // LANES), waves.shape[1]
    space = np.zeros((blocks, spaces.shape[1], LANES))
    of_space = np.zeros((blocks, spaces.shape[1], LANES))
    parts, of_parts = np.zeros((kernels, 2, LANES)), np.empty((kernels, 2, LANES))
    rows, of_rows = np.empty((kernels + 1, 4, LANES)), np.empty((kernels + 1, 4, LANES))
    poles, of_poles = np.empty((2, LANES)), np.empty((2, LANES))
    of_x = np.empty((2, LANES))  # of |x|^2 and Re x, x = y a
    of_sums = np.empty((frequencies, kernels + 1, 4), np.complex128)
    shares = _shares(channels, len(spaces))
    share = take(counter)
    while share < len(spaces) * shares:
        load_space(space, spaces, share // shares)
        of_space[:] = 0
        for h in _channels(share, shares, channels, len(spaces)):
            of_y = 0.0
            for f in range(frequencies):
                of_y += _spectrum_backward(of_sums, of_spectrum, sums, h, f, y[h], waves)
            for q in range(blocks):
                load_parts(parts, c, h, q)
                fill_rows(rows, parts, space, q)
                of_rows[:] = 0
                of_x[:] = 0
                for f in range(frequencies):
                    fill_poles(poles, y[h], space, q, waves, f)
                    of_poles[:] = 0
                    for k in range(kernels + 1):
                        group_backward(of_rows, of_poles, of_sums, f, rows, k, poles)
                    poles_backward(of_x, of_poles, poles, waves, f)
                of_y += x_backward(of_space, of_x, y[h], space, q)
                for k in range(kernels):
                    rows_backward(of_parts, of_space, of_rows, of_spectrum, h, parts, space, q, k)
                rows_of_p_backward(of_space, of_rows, q)
                store_parts(of_c, of_parts, h, q)
            of_log_dt[h, 0] = of_y * y[h]
        store_space(of_spaces, of_space, share // shares, share % shares)
        share = take(counter)


@inlined
def _steps(log_dt: Array, rate: float) -> Array:
    """y = dt / 2, (H,)."""
    y = np.empty(len(log_dt))
    for h in range(len(y)):
        y[h] = np.exp(np.float64(log_dt[h, 0])) * (rate / 2)
    return y


@inlined
def _shares(channels: int, spaces: int) -> int:
    """Number of parts that the channels of one state space are divided into."""
    return max(1, min(channels // spaces, SHARES // spaces))


@inlined
def _channels(share: int, shares: int, channels: int, spaces: int) -> range:
    """The channels of one part; channel h uses state space h mod `spaces`."""
    s, part, each = share // shares, share % shares, channels // spaces
    first, end = each * part // shares, each * (part + 1) // shares
    return range(s + spaces * first, s + spaces * end, spaces)


@inlined
def _fill_spectrum(spectrum: Array, sums: Array, h: int, f: int, y: float, waves: Array) -> None:
    outputs, _, directions, _ = spectrum.shape
    sin, shift = waves[0, f], waves[1, f] * y
    pb, pp = _against(sums, h, f, outputs * directions, sin, shift)
    q = shift * pb / (1 + shift * pp)
    for k in range(outputs * directions):
        cb, cp = _against(sums, h, f, k, sin, shift)
        value = y * (cb - cp * q)
        spectrum[k % outputs, h, k // outputs, f] = value.real
        spectrum[k % outputs, h, k // outputs, waves.shape[1] + f] = value.imag


@inlined
def _spectrum_backward(
    of_sums: Array, of_spectrum: Array, sums: Array, h: int, f: int, y: float, waves: Array
) -> float:
    """Writes the gradients of the sums of a frequency; returns that of y."""
    outputs, _, directions, _ = of_spectrum.shape
    sin, shift = waves[0, f], waves[1, f] * y
    pb, pp = _against(sums, h, f, outputs * directions, sin, shift)
    gain = 1 / (1 + shift * pp)
    ratio = shift * gain
    q = ratio * pb
    of_q, of_y, of_shift = 0j, 0.0, 0.0
    for k in range(outputs * directions):
        cb, cp = _against(sums, h, f, k, sin, shift)
        g = complex(
            of_spectrum[k % outputs, h, k // outputs, f],
            of_spectrum[k % outputs, h, k // outputs, waves.shape[1] + f],
        )
        of_y += (g.conjugate() * (cb - cp * q)).real
        g = g * y
        of_q -= g * cp.conjugate()
        of_low = -g * q.conjugate()
        of_shift += _against_backward(of_sums, sums, h, f, k, sin, shift, g, of_low)
    of_ratio = of_q * pb.conjugate()
    of_shift += (of_ratio * (gain * gain).conjugate()).real
    of_b, of_p = of_q * ratio.conjugate(), -of_ratio * (ratio * ratio).conjugate()
    of_shift += _against_backward(of_sums, sums, h, f, outputs * directions, sin, shift, of_b, of_p)
    return of_y + waves[1, f] * of_shift


@inlined
def _against(
    sums: Array, h: int, f: int, k: int, sin: float, shift: float
) -> tuple[complex, complex]:
    """The values of one group of sums against b and against p."""
    b, ba, p, pa = sums[h, f, k, 0], sums[h, f, k, 1], sums[h, f, k, 2], sums[h, f, k, 3]
    return 1j * sin * b - shift * ba, 1j * sin * p - shift * pa


@inlined
def _against_backward(
    of_sums: Array, sums: Array, h: int, f: int, k: int, sin: float, shift: float,
    of_b: complex, of_p: complex,
) -> float:  # fmt: skip
    """Writes the gradients of the sums; returns that of the shift."""
    of_sums[f, k, 0], of_sums[f, k, 1] = -1j * sin * of_b, -shift * of_b
    of_sums[f, k, 2], of_sums[f, k, 3] = -1j * sin * of_p, -shift * of_p
    return -(of_b * sums[h, f, k, 1].conjugate() + of_p * sums[h, f, k, 3].conjugate()).real
