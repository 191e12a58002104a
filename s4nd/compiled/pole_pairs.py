"""The inner loops of `s4nd.compiled.channels`, over the pole pairs of a channel in blocks of LANES.

The last block is padded with zeros: innermost loops of a size known at compile time are three times
as fast. Functions are inlined for the same reason.
"""

from __future__ import annotations

from s4nd.compiled.jit import Array, inlined
from s4nd.compiled.state_spaces import A_RE, OF_C, OF_P, SQUARES, ZERO

LANES = 32


@inlined
def load_space(space: Array, spaces: Array, s: int) -> None:
    """Load the numbers of state space s, block by block."""
    for row in range(spaces.shape[1]):
        for i in range(spaces.shape[2]):
            space[i // LANES, row, i % LANES] = spaces[s, row, i]


@inlined
def store_space(of_spaces: Array, of_space: Array, s: int, part: int) -> None:
    """Store one part of the gradient of state space s."""
    for row in range(of_spaces.shape[2]):
        for i in range(of_spaces.shape[3]):
            of_spaces[s, part, row, i] = of_space[i // LANES, row, i % LANES]


@inlined
def load_parts(parts: Array, c: Array, h: int, q: int) -> None:
    """Load the kernels of a channel: real parts, then imaginary parts."""
    rest = c.shape[2] - q * LANES
    for k in range(len(c)):
        if rest >= LANES:
            for i in range(LANES):
                parts[k, 0, i] = c[k, h, q * LANES + i, 0]
                parts[k, 1, i] = c[k, h, q * LANES + i, 1]
        else:
            for i in range(rest):
                parts[k, 0, i] = c[k, h, q * LANES + i, 0]
                parts[k, 1, i] = c[k, h, q * LANES + i, 1]
            for i in range(rest, LANES):
                parts[k, 0, i], parts[k, 1, i] = 0, 0


@inlined
def store_parts(of_c: Array, of_parts: Array, h: int, q: int) -> None:
    """Store the gradient of every kernel of a channel."""
    end = min(LANES, of_c.shape[2] - q * LANES)
    for k in range(len(of_c)):
        for i in range(end):
            of_c[k, h, q * LANES + i, 0] = of_parts[k, 0, i]
            of_c[k, h, q * LANES + i, 1] = of_parts[k, 1, i]


@inlined
def fill_rows(rows: Array, parts: Array, space: Array, q: int) -> None:
    """Compute the residues of every kernel of a channel, then those of conj(p)."""
    for k in range(len(parts)):
        for j in range(4):
            for i in range(LANES):
                rows[k, j, i] = (
                    parts[k, 0, i] * space[q, OF_C + j, i]
                    + parts[k, 1, i] * space[q, OF_C + 4 + j, i]
                )
    for j in range(4):
        for i in range(LANES):
            rows[len(parts), j, i] = space[q, OF_P + j, i]


@inlined
def rows_backward(
    of_parts: Array, of_space: Array, of_rows: Array, of_spectrum: Array, h: int,
    parts: Array, space: Array, q: int, k: int,
) -> None:  # fmt: skip
    """Writes the gradient of the parts of kernel k, and adds to that of the state space."""
    of_mean = of_spectrum[k % len(of_spectrum), h, k // len(of_spectrum), -1]
    for part in range(2):
        zero, first = ZERO + part, OF_C + 4 * part
        for i in range(LANES):
            x, b, ba = parts[k, part, i], of_rows[k, 0, i], of_rows[k, 1, i]
            p, pa = of_rows[k, 2, i], of_rows[k, 3, i]
            of_b = b * space[q, first, i] + ba * space[q, first + 1, i]
            of_p = p * space[q, first + 2, i] + pa * space[q, first + 3, i]
            of_parts[k, part, i] = of_mean * space[q, zero, i] + of_b + of_p
            of_space[q, zero, i] += of_mean * x
            of_space[q, first, i] += b * x
            of_space[q, first + 1, i] += ba * x
            of_space[q, first + 2, i] += p * x
            of_space[q, first + 3, i] += pa * x


@inlined
def rows_of_p_backward(of_space: Array, of_rows: Array, q: int) -> None:
    """Adds to the gradient of the residues of conj(p)."""
    for j in range(4):
        for i in range(LANES):
            of_space[q, OF_P + j, i] += of_rows[len(of_rows) - 1, j, i]


@inlined
def add_mean(spectrum: Array, h: int, parts: Array, k: int, space: Array, q: int) -> None:
    """Adds to the mean of kernel k, which is the last number of its spectrum."""
    mean = 0.0
    for i in range(LANES):
        mean += parts[k, 0, i] * space[q, ZERO, i] + parts[k, 1, i] * space[q, ZERO + 1, i]
    spectrum[k % len(spectrum), h, k // len(spectrum), -1] += mean


@inlined
def fill_poles(poles: Array, y: float, space: Array, q: int, waves: Array, f: int) -> None:
    """1 / (k^2 |x|^2 - s^2 - 2 i s k Re x), x = y a: real parts, then imaginary parts."""
    to_re, to_im = (y * waves[1, f]) ** 2, y * waves[2, f]
    for i in range(LANES):
        re = to_re * space[q, SQUARES, i] - waves[0, f] ** 2
        im = to_im * space[q, A_RE, i]
        scale = 1 / (re * re + im * im)
        poles[0, i], poles[1, i] = re * scale, im * scale


@inlined
def poles_backward(of_x: Array, of_poles: Array, poles: Array, waves: Array, f: int) -> None:
    """Adds to the gradients of |x|^2 and Re x: with w the pole pair, dw = -w^2 d(1/w)."""
    for i in range(LANES):
        re = poles[0, i] * poles[0, i] - poles[1, i] * poles[1, i]
        im = 2 * poles[0, i] * poles[1, i]
        of_x[0, i] -= (of_poles[0, i] * re + of_poles[1, i] * im) * waves[1, f] ** 2
        of_x[1, i] += (of_poles[1, i] * re - of_poles[0, i] * im) * waves[2, f]


@inlined
def x_backward(of_space: Array, of_x: Array, y: float, space: Array, q: int) -> float:
    """x = y a: adds to the gradients of |a|^2 and Re a; returns that of y."""
    of_y = 0.0
    for i in range(LANES):
        of_y += of_x[1, i] * space[q, A_RE, i] + 2 * y * of_x[0, i] * space[q, SQUARES, i]
        of_space[q, SQUARES, i] += y * y * of_x[0, i]
        of_space[q, A_RE, i] += y * of_x[1, i]
    return of_y


@inlined
def add_group(sums: Array, h: int, f: int, rows: Array, k: int, poles: Array) -> None:
    """The sums of four rows over the pole pairs."""
    b_re = b_im = ba_re = ba_im = p_re = p_im = pa_re = pa_im = 0.0
    for i in range(LANES):
        re, im = poles[0, i], poles[1, i]
        b_re += rows[k, 0, i] * re
        b_im += rows[k, 0, i] * im
        ba_re += rows[k, 1, i] * re
        ba_im += rows[k, 1, i] * im
        p_re += rows[k, 2, i] * re
        p_im += rows[k, 2, i] * im
        pa_re += rows[k, 3, i] * re
        pa_im += rows[k, 3, i] * im
    sums[h, f, k, 0] += complex(b_re, b_im)
    sums[h, f, k, 1] += complex(ba_re, ba_im)
    sums[h, f, k, 2] += complex(p_re, p_im)
    sums[h, f, k, 3] += complex(pa_re, pa_im)


@inlined
def group_backward(
    of_rows: Array, of_poles: Array, of_sums: Array, f: int, rows: Array, k: int, poles: Array
) -> None:
    """Adds to the gradients of four rows and of the poles."""
    b, ba, p, pa = of_sums[f, k, 0], of_sums[f, k, 1], of_sums[f, k, 2], of_sums[f, k, 3]
    for i in range(LANES):
        re, im = poles[0, i], poles[1, i]
        of_rows[k, 0, i] += re * b.real + im * b.imag
        of_rows[k, 1, i] += re * ba.real + im * ba.imag
        of_rows[k, 2, i] += re * p.real + im * p.imag
        of_rows[k, 3, i] += re * pa.real + im * pa.imag
        to_b, to_ba, to_p, to_pa = rows[k, 0, i], rows[k, 1, i], rows[k, 2, i], rows[k, 3, i]
        of_poles[0, i] += to_b * b.real + to_ba * ba.real + to_p * p.real + to_pa * pa.real
        of_poles[1, i] += to_b * b.imag + to_ba * ba.imag + to_p * p.imag + to_pa * pa.imag
