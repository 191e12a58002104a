"""Initial values of the parameters of an axis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from s4nd.kernels.bases import CPU, StateSpace, initial_state_spaces
from s4nd.kernels.grid import Grid
from s4nd.kernels.kernel import diagonal_kernel
from s4nd.kernels.low_rank import Part, low_rank_taps, shared_numbers

if TYPE_CHECKING:
    from s4nd.axis import AxisConfig

SLOWEST_DECAY = 1e-4  # -Re a is stored as a logarithm, so it cannot be zero
START_NORM = 0.3  # of the kernel beside the delta of start="difference", over the base grid


class Shape(NamedTuple):
    """The number of kernels per channel and of channels of an axis."""

    kernels: int
    channels: int


def initial_values(config: AxisConfig, shape: Shape) -> dict[str, Tensor]:
    """Parameter name -> value, in float64 on the CPU."""
    space = initial_state_spaces(config.basis, config.state, config.copies, config.num_low_rank)
    decay = (-space.a.real).clamp(min=SLOWEST_DECAY)
    space = space._replace(a=torch.complex(-decay, space.a.imag))
    dt = _draw_steps(config, shape.channels)  # (H, 1)
    tiled = tile(space, shape.channels)
    c = _start_c(config, shape, tiled, dt)
    values = {
        "log_dt": dt.log(),
        "A_real": decay.log(),
        "A_imag": -space.a.imag,
        "B": torch.view_as_real(space.b)[None],
        "C": torch.view_as_real(c.resolve_conj()),
    }
    return values | ({"P": torch.view_as_real(space.p)} if config.num_low_rank else {})


def _directions(config: AxisConfig) -> int:
    return 2 if config.bidirectional else 1


def tile(space: StateSpace, channels: int) -> StateSpace:
    """Give every channel its copy of the state space: (S, n) -> (H, n)."""
    times = channels // len(space.a)
    a, b, first = (x.repeat(times, 1) for x in (space.a, space.b, space.first))
    return StateSpace(a, b, space.p.repeat(1, times, 1), first)


def _draw_steps(config: AxisConfig, channels: int) -> Tensor:
    if config.length is not None:
        return torch.full((channels, 1), 2.0 / config.length, dtype=torch.float64, device=CPU)
    low, high = math.log(config.dt_min), math.log(config.dt_max)
    uniform = torch.rand(channels, 1, dtype=torch.float64, device=CPU)
    return (low + (high - low) * uniform).exp()


def _start_c(config: AxisConfig, shape: Shape, space: StateSpace, dt: Tensor) -> Tensor:
    """C of the configured start: (K, H, n)."""
    full = (*shape, config.state // 2)
    if config.start == "identity":
        return torch.zeros(full, dtype=torch.complex128, device=CPU)
    if config.start in ("random", "difference"):
        c = torch.randn(full, dtype=torch.complex128, device=CPU)
    else:
        c = space.first.expand(full)
    if config.num_low_rank:
        c = fold(c, space, dt, config.period or config.size)
    if config.start == "deterministic":
        c = c / (_directions(config) * _taps(config, space, c, dt).sum(-1, keepdim=True))
    if config.start == "difference":
        squares = _taps(config, space, c, dt).square().sum(-1)  # (K, H)
        both = squares.view(_directions(config), -1, shape.channels).sum(0)  # (outputs, H)
        c = c * (START_NORM / both.sqrt()).repeat(_directions(config), 1)[..., None]
    return c


def fold(c: Tensor, space: StateSpace, dt: Tensor, period: int) -> Tensor:
    """C (I - A^period) of the bilinear system at the given step, one cheap product at a time.

    c (K, H, n); space tiled to (H, n); dt (H, 1).
    """
    return c - _times_power(c, space, dt, period)


def unfold(c: Tensor, space: StateSpace, dt: Tensor, period: int) -> Tensor:
    """C (I + A^period): from what is stored for a period to what is stored for twice of it."""
    return c + _times_power(c, space, dt, period)


def _times_power(c: Tensor, space: StateSpace, dt: Tensor, power: int) -> Tensor:
    """C A^power with A = (I - y M)^-1 (I + y M), M = diag(a) - P P^H, y = dt / 2.

    Only the first half of each conjugate pair is kept, so [c, conj c] [P; conj P] = 2 Re(c P).
    """
    y, p = dt / 2, space.p  # (H, 1), (R, H, n)
    g = 1 / (1 - y * space.a)  # (H, n)
    small = 2 * torch.einsum("rhn,hn,shn->hrs", p.conj(), g, p).real * y[..., None]
    woodbury = torch.linalg.inv(torch.eye(len(p), dtype=torch.float64, device=CPU) + small)
    for _ in range(power):
        read = 2 * torch.einsum("khn,rhn->khr", c, p).real
        c = c * (1 + y * space.a) - y * torch.einsum("khr,rhn->khn", read + 0j, p.conj())
        read = 2 * torch.einsum("khn,rhn->khr", c * g, p).real
        read = y * torch.einsum("khr,hrs->khs", read, woodbury)
        c = (c - torch.einsum("khs,shn->khn", read + 0j, p.conj())) * g
    return c


def _taps(config: AxisConfig, space: StateSpace, c: Tensor, dt: Tensor) -> Tensor:
    """The kernels of each direction on the base grid: (K, H, size)."""
    a, b, pairs = (torch.view_as_real(x.contiguous()) for x in (space.a, space.b, c))
    if not config.num_low_rank:
        return diagonal_kernel(dt, a, b, pairs, length=config.size, rule=config.rule)
    shared = shared_numbers((a[..., 0], a[..., 1]), b, torch.view_as_real(space.p))
    grid = Grid(config.period or config.size, config.size, 1, CPU)
    part = Part(dt / 2, pairs.permute(1, 0, 3, 2)[:, None, :, None], grid)
    return low_rank_taps([part], [shared])[0][:, :, 0, config.size :]
