"""Taps of diagonal-plus-rank-one state spaces on a CPU, from their parameters, with gradient.

It computes what `s4nd.low_rank` does (a test holds them together) in a fraction of the time,
because torch takes longer to begin an operation than these need: machine code works on the few
numbers of a state space (`s4nd.state_spaces`), then takes a channel at a time from its weights to
its spectrum (`s4nd.channels`).

Letters as in `s4nd.low_rank`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from s4nd import channels, state_spaces
from s4nd.machine_code import Array, team

if TYPE_CHECKING:
    from s4nd.low_rank import Grid


class RankOneTaps(torch.autograd.Function):
    """Parameters of an axis, of one dtype -> taps (outputs, H, 2 L), lag 0 at index L.

    log_dt (H, 1); A_real and A_imag (S, n); B and P (1, S, n, 2); C (directions outputs, H, n, 2).
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
        outputs: int,
    ) -> Tensor:
        """At `rate` base samples per sample."""
        shared = [_numbers(x) for x in (a_real, a_imag, b, p)]
        found, *solved = state_spaces.prepare(*shared, grid.period)
        inputs = _numbers(log_dt), _numbers(c), rate, found, grid.waves.numpy()
        spectrum, sums = channels.forward(*inputs, outputs, team())
        ctx.grid, ctx.shared, ctx.inputs = grid, (*solved, grid.period), (*inputs, sums)
        ctx.save_for_backward(log_dt, a_real, a_imag, b, c, p)  # torch watches over changes of them
        return grid.taps(torch.from_numpy(spectrum)).to(c.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_taps: Tensor) -> tuple[Tensor | None, ...]:
        """Of every parameter."""
        _ = ctx.saved_tensors  # raises if one was changed since
        of_spectrum = ctx.grid.taps_backward(of_taps.double()).contiguous().numpy()
        of_log_dt, of_c, of_found = channels.backward(*ctx.inputs, of_spectrum, team())
        of_a_real, of_a_imag, of_b, of_p = state_spaces.prepare_backward(
            *ctx.shared, of_found.sum(1)
        )
        found = (of_log_dt, of_a_real, of_a_imag, of_b, of_c, of_p)
        return *[torch.from_numpy(x).to(of_taps.dtype) for x in found], None, None, None


def _numbers(x: Tensor) -> Array:
    return x.detach().contiguous().numpy()
