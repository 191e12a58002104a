"""Which engine is expected to be faster: a model of their cost, fitted to tools/bench_layer.py.

`python tools/bench_layer.py --crossover` measures both engines over many shapes and prints what
this model would have chosen. It was fitted on a CPU; other devices are measured, see
`engine_measurement.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from s4nd.conv import Mixing
from s4nd.engines.engine_measurement import measured_choice

# Nanoseconds on one core, forward and backward, for one channel.
PER_PRODUCT = 0.06  # of one sample with one entry of a Toeplitz matrix
PER_MATRIX_ENTRY = 10.0  # building a Toeplitz matrix and summing its gradient
PER_TRANSFORMED_SAMPLE = 30.0  # of the zero-padded signal
PER_SPECTRUM_PRODUCT = 4.0  # one more rank, or one more channel of a dense layer
BATCH = 64  # assumed, so that neither results nor a traced layer depend on the batch size


def takes_matmul(
    sizes: Sequence[int], lengths: Sequence[int], channels: int, mixing: Mixing, like: Tensor
) -> bool:
    """The choice of `auto` on the device of `like`: by the model, or as measured there."""
    if like.device.type != "cpu":
        measured = measured_choice(sizes, lengths, channels, mixing, like)
        if measured is not None:
            return measured
    return prefers_matmul(sizes, lengths, channels, mixing)


def prefers_matmul(
    sizes: Sequence[int], lengths: Sequence[int], channels: int, mixing: Mixing
) -> bool:
    """sizes and lengths: samples of the signal and of the kernel along each axis."""
    # Lists, not generators: torch.compile does not follow those once sizes are symbols.
    samples = BATCH * math.prod(sizes)
    products = PER_PRODUCT * samples * sum(sizes)
    matrices = PER_MATRIX_ENTRY * sum([size * size for size in sizes])
    matmul = mixing.rank * mixing.groups * (products + matrices)
    padded = BATCH * math.prod([n + length for n, length in zip(sizes, lengths, strict=True)])
    transforms = (1 + mixing.groups / channels) / 2 if mixing.dense else mixing.groups
    extra = mixing.groups * (mixing.rank if mixing.dense else mixing.rank - 1)
    fft = padded * (transforms * PER_TRANSFORMED_SAMPLE + extra * PER_SPECTRUM_PRODUCT)
    return matmul < fft
