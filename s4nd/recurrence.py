"""A one-sided axis as a recurrence: one step of the signal at a time, with a state of fixed size.

Sampled to any length, the kernel of a one-sided axis with a diagonal A is the impulse response of

    x_t = z x_(t-1) + u_t,    y_t = Re(w · x_t) + d u_t

with n complex numbers of state per channel. It is infinite; `endless_taps` returns it for a signal
of known length, so that convolution and recurrence compute the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from s4nd.axis import AxisConfig, AxisStateSpace
from s4nd.kernels.kernel import discretise


def why_no_recurrence(config: AxisConfig) -> str | None:
    """The setting that prevents a recurrence, with a remedy; None if there is a recurrence."""
    if config.bidirectional:
        return "bidirectional kernels need future samples; choose bidirectional=False"
    if config.num_low_rank:
        return f"basis {config.basis!r} has a low-rank part; choose a diag-* basis"
    if config.start == "deterministic":
        return "start 'deterministic' scales the kernel cut at its base grid; choose another start"
    return None


@dataclass(frozen=True)
class Recurrence:
    """The coefficients at one rate: z and w (H, n) complex, d (H,)."""

    z: Tensor
    w: Tensor
    d: Tensor

    def start(self, signal: Tensor, *, repeats: bool) -> Tensor:
        """The state (..., H, n) before the first sample (..., H).

        repeats: the first sample is repeated before the signal, instead of zeros.
        """
        if not repeats:
            return self.z.new_zeros(*signal.shape, self.z.shape[-1])
        return signal[..., None] / (1 - self.z)

    def step(self, state: Tensor, signal: Tensor) -> tuple[Tensor, Tensor]:
        """(output (..., H), new state) for the state before the sample and the sample (..., H)."""
        state = self.z * state + signal[..., None]
        return (self.w * state).sum(-1).real + self.d * signal, state


@torch.no_grad()
def recurrence(space: AxisStateSpace, rate: float = 1.0) -> Recurrence:
    """The recurrence of an axis with one output.

    Raises ValueError where `why_no_recurrence` has a reason.
    """
    _check(space)
    dt, a, b, c = space.continuous(rate)
    log_z, w = discretise(dt, a, b, rule=space.config.rule)
    scale, delta = _scale_and_delta(space, _gain(a, b, c)[0])
    weights = 2 * scale * torch.complex(*w) * torch.view_as_complex(c[0].contiguous())
    return Recurrence(torch.complex(*log_z).exp().expand_as(weights), weights, delta)


def endless_taps(space: AxisStateSpace, length: int, rate: float = 1.0) -> Tensor:
    """The kernel of an axis with one output: (channels, length + 1), lags 0 … length.

    The last tap is the sum of the kernel over lag `length` and all later ones. All of these fall on
    the same sample if the first one is repeated before a signal of `length` samples.
    Raises ValueError where `why_no_recurrence` has a reason.
    """
    _check(space)
    _, a, b, c = space.continuous(rate)
    gain = _gain(a, b, c)[0]
    scale, delta = _scale_and_delta(space, gain)
    taps = space(length, rate)[0]
    taps = torch.cat((taps, (gain - taps.sum(-1))[:, None]), -1)
    return scale * taps + functional.pad(delta[:, None], (0, length))


def _check(space: AxisStateSpace) -> None:
    reason = why_no_recurrence(space.config)
    if reason is not None:
        raise ValueError(f"this axis has no recurrence: {reason}")


def _gain(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The sum of the kernel over all lags, -2 Re sum_n c_n b_n / a_n: (K, H), at any step."""
    re = b[..., 0] * c[..., 0] - b[..., 1] * c[..., 1]
    im = b[..., 0] * c[..., 1] + b[..., 1] * c[..., 0]
    quotient = (re * a[..., 0] + im * a[..., 1]) / a.square().sum(-1)
    return -2 * quotient.sum(-1)


def _scale_and_delta(space: AxisStateSpace, gain: Tensor) -> tuple[float, Tensor]:
    """Factor of the state space, and the tap added at lag 0 (H,), as in `AxisStateSpace.taps`."""
    if space.config.start == "identity":
        return 1 / space.config.state, torch.ones_like(gain)
    if space.config.start == "difference":
        return 1.0, 1 - gain
    return 1.0, torch.zeros_like(gain)
