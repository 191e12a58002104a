"""Kernels of many axes at once in plain torch: axes that need the same operations share them.

A kernel takes about a hundred small operations, and on a device launching them takes longer than
computing them. So the axes of a layer, and those of all layers of a network (`s4nd.together`), are
put into groups of equal state size, length and rate, and each group is sampled in one go.

Letters: S state spaces of a group, E channels of each, n conjugate pairs, K kernels per channel.
Channel h of an axis with `copies` state spaces uses number h mod copies.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from s4nd import conv
from s4nd.cache import Memo
from s4nd.kernels.grid import Grid
from s4nd.kernels.kernel import apply_bandlimit, diagonal_kernel, two_sided
from s4nd.kernels.low_rank import (
    Part,
    SharedNumbers,
    accurate_dtype,
    join,
    low_rank_taps,
    shared_numbers,
)

if TYPE_CHECKING:
    from s4nd.axis import AxisStateSpace

_grids = Memo(max_entries=16)


class KernelRequest(NamedTuple):
    """The taps of an axis, or with `size` the Toeplitz matrices for a signal of `size` samples.

    delta: with what the starts `identity` and `difference` add to the state space at lag 0.
    """

    space: AxisStateSpace
    length: int
    rate: float
    size: int | None = None
    delta: bool = True


def sample(requests: Sequence[KernelRequest]) -> list[Tensor]:
    """Taps (outputs, channels, 2 L) or matrices (outputs, channels, size, size), in order."""
    families: dict[Hashable, dict[Hashable, list[int]]] = {}
    for index, each in enumerate(requests):
        family, key = _keys(each)
        families.setdefault(family, {}).setdefault(key, []).append(index)
    found: dict[int, Tensor] = {}
    for places in families.values():
        groups = [[requests[index] for index in indices] for indices in places.values()]
        all_taps = _low_rank(groups) if groups[0][0].space.P is not None else _diagonal(groups)
        for indices, group, taps in zip(places.values(), groups, all_taps, strict=True):
            found |= zip(indices, _finish(group, taps), strict=True)
    return [found[index] for index in range(len(requests))]


def _keys(request: KernelRequest) -> tuple[Hashable, Hashable]:
    """Axes of one family share operations; those of one group differ in their parameters only."""
    space, length, rate, size, delta = request
    config, c = space.config, space.C
    family = (config.state, config.num_low_rank, len(c), config.bidirectional, c.dtype, c.device)
    form = (space.channels // config.copies, config.start, config.rule, space.bandlimit, delta)
    return family, (form, length, rate, space.period(rate), size, size and config.padding)


def _low_rank(groups: Sequence[Sequence[KernelRequest]]) -> list[Tensor]:
    """Taps (outputs, S, E, 2 L) of each group of a family with a low-rank part."""
    dtype = accurate_dtype(groups[0][0].space.C.device)
    a_real, a_imag, b, p = (
        _parameters([each for group in groups for each in group], name).to(dtype)
        for name in ("A_real", "A_imag", "B", "P")
    )
    numbers = shared_numbers((-a_real.exp(), -a_imag), b.squeeze(0), p)
    sizes = [sum(each.space.config.copies for each in group) for group in groups]
    shared = [
        SharedNumbers(*each) for each in zip(*(torch.split(x, sizes) for x in numbers), strict=True)
    ]
    parts = []
    for group in groups:
        space, length, rate, *_ = group[0]
        dt, c = _step_and_c(group, dtype)
        directions = 2 if space.config.bidirectional else 1
        key = (space.period(rate), length, directions, c.device, dtype)
        grid = _grids.get(key, partial(Grid, *key))
        c = torch.unflatten(c, 1, (directions, -1)).permute(
            0, 3, 2, 1, 5, 4
        )  # (S, E, outputs, ..., 2, n)
        c = c.to(dtype, memory_format=torch.contiguous_format)
        parts.append(Part(dt.squeeze(-1) * (rate / 2), c, grid))
    return low_rank_taps(parts, shared)


def _diagonal(groups: Sequence[Sequence[KernelRequest]]) -> list[Tensor]:
    """Taps (outputs, S, E, 2 L) of each group with a diagonal state space."""
    found = []
    for group in groups:
        space, length, rate, *_ = group[0]
        dt, c = _step_and_c(group, space.kernel_dtype())
        c = c.to(dt.dtype)
        a_real, a_imag, b = (_parameters(group, x).to(c.dtype) for x in ("A_real", "A_imag", "B"))
        a = torch.stack((-a_real.exp(), -a_imag), -1)[:, None]  # (S, 1, n, 2)
        b, rule = b.squeeze(0)[:, None], space.config.rule
        kernels = diagonal_kernel(dt * rate, a, b, c.transpose(0, 1), length=length, rule=rule)
        ahead, *behind = torch.split(kernels, space.outputs)
        found.append(two_sided(ahead, behind[0] if behind else None))
    return found


def _step_and_c(group: Sequence[KernelRequest], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """dt (S, E, 1) on the base grid in `dtype`, and c (S, K, E, n, 2) within the bandlimit."""
    space = group[0].space
    dt = join([_by_space(each.space.log_dt[None], each) for each in group], 0)
    dt = dt.squeeze(1).to(dtype).exp()
    c = join([_by_space(each.space.C, each) for each in group], 0)
    # A flattened tensor has a contiguous gradient, made once here and not again for every layer.
    c = c.flatten().view(c.shape)
    if space.bandlimit is not None:
        a_imag = _parameters(group, "A_imag").to(dtype)[:, None, None]  # (S, 1, 1, n)
        c = apply_bandlimit(c, dt[:, None], a_imag, space.bandlimit)
    return dt, c


def _finish(group: Sequence[KernelRequest], taps: Tensor) -> list[Tensor]:
    """Taps (outputs, S, E, 2 L) of a group -> the taps or matrices of each of its axes."""
    space, _, _, size, delta = group[0]
    result = taps.to(space.kernel_dtype())
    if delta:
        result = taps = with_start(result, space)
    if size is not None:
        result = conv.toeplitz(taps, size)
        if space.config.padding == "replicate":
            result = conv.repeat_ends(result, taps)
    parts = torch.split(result, [each.space.config.copies for each in group], 1)
    return [part.transpose(1, 2).flatten(1, 2) for part in parts]


def with_start(taps: Tensor, space: AxisStateSpace) -> Tensor:
    """Taps (..., 2 L) with the delta at lag 0 that some starts have."""
    start, length = space.config.start, taps.shape[-1] // 2
    if start not in ("identity", "difference"):
        return taps
    delta = functional.pad(taps.new_ones(1), (length, length - 1))
    if start == "identity":
        # Scaled by 1 / state, a state space grows from zero no faster than plain taps would.
        return taps / space.config.state + delta
    # The taps sum to one, whatever the parameters, the length and the rate: the response of the
    # sampled kernel to a constant signal is subtracted at lag 0, where nothing is mixed.
    return taps + (1 - taps.sum(-1, keepdim=True)) * delta


def _parameters(group: Sequence[KernelRequest], name: str) -> Tensor:
    """A_real and A_imag (S, n), B (1, S, n, 2), P (R, S, n, 2) of all state spaces."""
    return join([getattr(each.space, name) for each in group], 1 if name in ("B", "P") else 0)


def _by_space(x: Tensor, request: KernelRequest) -> Tensor:
    """(K, channels, ...) -> (S, K, E, ...)."""
    return torch.unflatten(x, 1, (-1, request.space.config.copies)).movedim(2, 0)
