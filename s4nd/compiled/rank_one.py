"""Taps of diagonal-plus-rank-one state spaces from their parameters, and the gradient back.

It computes what `s4nd.kernels.low_rank` does (a test compares them) in a fraction of the time:
torch takes longer to start an operation than these need. Loops compute the few numbers that the
channels of a state space share (`state_spaces.py`), then for one channel after the other the
spectrum of its kernels (`channels.py`). A product with a constant matrix gives the taps.

Letters as in `s4nd.kernels.low_rank`; parameters as in `operators.rank_one_taps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy
import torch
from torch import Tensor

from s4nd.compiled import channels, state_spaces
from s4nd.compiled.jit import Array, team
from s4nd.kernels.grid import Grid

CPU = torch.device("cpu")


@lru_cache(maxsize=32)
def _constants(period: int, length: int, directions: int) -> tuple[Grid, Array]:
    """The grid; waves (3, F)."""
    grid = Grid(period, length, directions, CPU)
    return grid, torch.stack((grid.sin, grid.cos, grid.sin_full)).numpy()


def forward(
    parameters: Sequence[Tensor], rate: float, period: int, length: int, directions: int
) -> tuple[Tensor, Tensor]:
    """Taps (outputs, H, 2 L), and sums (H, F, K + 1, 4) for the gradient."""
    grid, waves = _constants(period, length, directions)
    log_dt, *shared, c = (_numbers(x) for x in parameters)
    found = state_spaces.prepare(*shared, period)[0]
    kernels, count, frequencies = len(c), len(log_dt), waves.shape[1]
    shape = (kernels // directions, count, directions, 2 * frequencies + 1)
    spectrum = torch.empty(shape, dtype=torch.float64)
    sums = torch.empty((count, frequencies, kernels + 1, 4), dtype=torch.complex128)
    channels.forward(log_dt, c, rate, found, waves, spectrum.numpy(), sums.numpy(), team())
    return grid.taps(spectrum).to(parameters[-1].dtype), sums


def backward(
    of_taps: Tensor, sums: Tensor, parameters: Sequence[Tensor],
    rate: float, period: int, length: int, directions: int,
) -> list[Tensor]:  # fmt: skip
    """Gradients of all parameters."""
    grid, waves = _constants(period, length, directions)
    of_taps = of_taps.double()
    if grid.to_taps is not None:
        of_spectrum = torch.matmul(of_taps, grid.to_taps.mT)
    else:
        behind, ahead = of_taps.chunk(2, -1)
        of_samples = torch.stack((ahead, behind.flip(-1))[:directions], -2)
        values = torch.fft.rfft(of_samples, period)[..., 1:] * grid.weight
        values = torch.polar(torch.ones_like(grid.t), -grid.t / 2) * values
        of_spectrum = torch.cat((values.real, values.imag, of_samples.sum(-1, keepdim=True)), -1)
    of_spectrum = of_spectrum.reshape(*of_taps.shape[:-1], directions, -1)
    log_dt, *shared, c = (_numbers(x) for x in parameters)
    found, *solved = state_spaces.prepare(*shared, period)
    of_log_dt, of_c, of_found = channels.backward(
        log_dt, c, rate, found, waves, _numbers(sums), _numbers(of_spectrum), team()
    )
    of_shared = state_spaces.prepare_backward(*solved, period, of_found.sum(1))
    dtype = parameters[-1].dtype
    return [torch.from_numpy(x).to(dtype) for x in (of_log_dt, *of_shared, of_c)]


def _numbers(x: Tensor) -> Array:
    """An array with the memory of the tensor.

    `numpy()` would pin the memory permanently, but FSDP frees and reallocates that of parameters.
    """
    array: Array = numpy.from_dlpack(x.detach().contiguous())
    return array
