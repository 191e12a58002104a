"""Spectra of diagonal-plus-rank-one state spaces on a CPU, from their parameters, with gradient.

It computes what `s4nd.low_rank.low_rank_spectrum` does (a test holds them together) in a fraction
of the time, because torch takes longer to begin an operation than these need: machine code works on
the few numbers of a state space (`s4nd.state_spaces`), then takes a channel at a time from its
weights to its spectrum (`s4nd.channels`). One thread does it; torch's others wait for its next
operation without leaving their cores.

Letters as in `s4nd.low_rank`. Gradients of a complex z are dL/d Re z + i dL/d Im z.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s4nd import channels, state_spaces
from s4nd.machine_code import Array

if TYPE_CHECKING:
    from s4nd.low_rank import Grid


class RankOneSpectrum(torch.autograd.Function):
    """Parameters of an axis -> spectra (K, H, 2F) and means (K, H) of its kernels, in double.

    log_dt (H, 1); A_real and A_imag (S, n); B and P (1, S, n, 2); C (K, H, n, 2).
    """

    @staticmethod
    def forward(
        ctx: Any,
        log_dt: Tensor,
        a_real: Tensor,
        a_imag: Tensor,
        b: Tensor,
        c: Tensor,
        p: Tensor,
        rate: float,
        grid: Grid,
    ) -> tuple[Tensor, Tensor]:
        """At `rate` base samples per sample."""
        y = np.exp(_numbers(log_dt)[:, 0]) * (rate / 2)
        a = -np.exp(_numbers(a_real)) - 1j * _numbers(a_imag)  # (S, n)
        spaces = a, _complex(b), _complex(p), grid.period
        *prepared, v, e = state_spaces.prepare(*spaces)
        inputs = (y, c.detach().contiguous().numpy(), *prepared)
        inputs += tuple(x.numpy() for x in (grid.sin, grid.cos, grid.sin_full))
        spectrum, mean, sums = channels.forward(*inputs)
        ctx.saved = (*spaces, v, e), (*inputs, sums)
        ctx.save_for_backward(log_dt, a_real, a_imag, b, c, p)  # torch watches over changes of them
        return torch.from_numpy(spectrum), torch.from_numpy(mean)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_spectrum: Tensor, of_mean: Tensor) -> tuple[Tensor | None, ...]:
        """Of every parameter."""
        spaces, inputs = ctx.saved
        given = [x.contiguous().numpy() for x in (of_spectrum, of_mean)]
        of_y, of_c, *of_prepared = channels.backward(*inputs, *given)
        of_a, of_b, of_p = state_spaces.prepare_backward(*spaces, *of_prepared)
        of_log_dt, of_a_real = of_y * inputs[0], of_a.real * spaces[0].real
        found = (of_log_dt[:, None], of_a_real, -of_a.imag, _pairs(of_b), of_c, _pairs(of_p))
        gradients = [
            torch.from_numpy(x).to(parameter.dtype)
            for x, parameter in zip(found, ctx.saved_tensors, strict=True)
        ]
        return *gradients, None, None


def _numbers(x: Tensor) -> Array:
    return x.detach().double().numpy()


def _complex(x: Tensor) -> Array:
    return torch.view_as_complex(x.detach()[0].double().contiguous()).numpy()  # (S, n)


def _pairs(x: Array) -> Array:
    return np.stack((x.real, x.imag), -1)[None]
