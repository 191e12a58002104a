"""The loops of `products.py`: the innermost loop runs along the array that is written.

Signals are (batch, channels, a, b, last) or (batch, a, b, last, channels).
"""

from __future__ import annotations

import numpy as np

from s4nd.compiled.jit import Array, Team, compiled, in_parallel, inlined, take

CHANNELS = 64  # channels gathered at a time, in channels-last signals
LANES = 16  # numbers written at a time
SHARES = 64  # parts of the work, in channels-first signals


@compiled
def gather(signal: Array, found: Array, team: Team) -> None:
    """signal (batch, a, b, last, channels) -> found (channels, b, a, batch, last)."""
    in_parallel(team, _gather, (np.zeros(1, np.int64), signal, found))


@inlined
def _gather(counter: Array, signal: Array, found: Array) -> None:
    batch, a, b, last, channels = signal.shape
    blocks = -(-channels // CHANNELS)
    unit = take(counter)
    while unit < a * b * blocks:
        i, j, first = unit // blocks // b, unit // blocks % b, unit % blocks * CHANNELS
        for n in range(batch):
            for c in range(first, min(first + CHANNELS, channels)):
                for w in range(last):
                    found[c, j, i, n, w] = signal[n, i, j, w, c]
        unit = take(counter)


@compiled
def scatter_last(product: Array, signal: Array, skip: Array, found: Array, team: Team) -> None:
    """product (channels, b, a, batch, last) + skip * signal (batch, a, b, last, channels)."""
    in_parallel(team, _scatter_last, (np.zeros(1, np.int64), product, signal, skip, found))


@inlined
def _scatter_last(counter: Array, product: Array, signal: Array, skip: Array, found: Array) -> None:
    batch, a, b, last, channels = signal.shape
    unit = take(counter)
    while unit < a * b * batch:
        i, j, n = unit // batch // b, unit // batch % b, unit % batch
        for first in range(0, channels - LANES + 1, LANES):
            for w in range(last):
                for lane in range(LANES):
                    c = first + lane
                    found[n, i, j, w, c] = product[c, j, i, n, w] + skip[c] * signal[n, i, j, w, c]
        for c in range(channels - channels % LANES, channels):
            for w in range(last):
                found[n, i, j, w, c] = product[c, j, i, n, w] + skip[c] * signal[n, i, j, w, c]
        unit = take(counter)


@compiled
def scatter(product: Array, signal: Array, skip: Array, found: Array, team: Team) -> None:
    """product (channels, b, a, batch, last) + skip * signal (batch, channels, a, b, last)."""
    in_parallel(team, _scatter, (np.zeros(1, np.int64), product, signal, skip, found))


@inlined
def _scatter(counter: Array, product: Array, signal: Array, skip: Array, found: Array) -> None:
    batch, channels, a, b, last = signal.shape
    each = -(-channels // SHARES)
    first = take(counter) * each
    while first < channels:
        for c in range(first, min(first + each, channels)):
            for n in range(batch):
                for i in range(a):
                    for j in range(b):
                        for w in range(last):
                            through = skip[c] * signal[n, c, i, j, w]
                            found[n, c, i, j, w] = product[c, j, i, n, w] + through
        first = take(counter) * each


@compiled
def dots(first: Array, second: Array, found: Array, team: Team) -> None:
    """first and second (channels, count) -> found (channels,): their dot products."""
    in_parallel(team, _dots, (np.zeros(1, np.int64), first, second, found))


@inlined
def _dots(counter: Array, first: Array, second: Array, found: Array) -> None:
    each = -(-len(first) // SHARES)
    start = take(counter) * each
    while start < len(first):
        for c in range(start, min(start + each, len(first))):
            total = found.dtype.type(0)
            for i in range(first.shape[1]):
                total += first[c, i] * second[c, i]
            found[c] = total
        start = take(counter) * each
