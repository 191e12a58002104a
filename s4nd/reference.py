"""Layers saved by the public S4 v4 code.

Its state dict has, per axis i, `kernel.<i>.inv_dt` (H, 1), `A_real` and `A_imag` (S, n), `B`
(1, S, n, 2), `C` (kernels, H, n, 2), and for low-rank state spaces `P` (R, S, n, 2) and `l_kernel`;
and a skip `D`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from s4nd.axis import AxisConfig, Discretisation
from s4nd.kernels.bases import StateSpace
from s4nd.kernels.initial import fold, tile, unfold
from s4nd.layer import S4ND

NAMES = {"inv_dt": "log_dt", "A_real": "A_real", "A_imag": "A_imag", "B": "B", "C": "C", "P": "P"}


@torch.no_grad()
def from_reference(
    state_dict: Mapping[str, Tensor],
    *,
    size: int | Sequence[int],
    bidirectional: bool = True,
    discretisation: Discretisation = "zoh",
    bandlimit: float | None = None,
    rank: int = 1,
    out_channels: int | None = None,
) -> S4ND:
    """The S4ND that computes what the reference layer with this state dict does.

    size: the length given at training, one per axis. The other arguments are not in the state dict:
    directions, discretisation of diagonal state spaces, bandlimit, rank, dense outputs. The basis
    is not in it either; it decides initial values only, and is set to "diag-lin".
    """
    axes_found = _axes_of(state_dict)
    sizes = [size] * len(axes_found) if isinstance(size, int) else list(size)
    if len(sizes) != len(axes_found):
        raise ValueError(
            f"state dict has {len(axes_found)} axes, got size {size}: give one per axis"
        )
    configs = []
    for found, axis_size in zip(axes_found, sizes, strict=True):
        low_rank = "P" in found
        stored = int(found["l_kernel"]) if low_rank else 0
        configs.append(
            AxisConfig(
                axis_size,
                state=2 * found["A_real"].shape[-1],
                basis="diag-lin",
                bidirectional=bidirectional,
                bandlimit=bandlimit,
                copies=found["A_real"].shape[0],
                discretisation="bilinear" if low_rank else discretisation,
                low_rank=len(found["P"]) if low_rank else 0,
                period=_period(stored, axis_size) if low_rank else None,
            )
        )
    kernels, channels = axes_found[0]["C"].shape[:2]
    multiplier = 1 if out_channels is not None else len(state_dict["D"])
    expected = (out_channels or multiplier) * rank * (2 if bidirectional else 1)
    if kernels != expected:
        raise ValueError(
            f"C has {kernels} kernels per channel; expected {expected} for "
            f"bidirectional={bidirectional}, rank={rank}, out_channels={out_channels} and a D of "
            f"shape {tuple(state_dict['D'].shape)}"
        )
    layer = S4ND(channels, configs, rank=rank, out_channels=out_channels, multiplier=multiplier)
    layer = layer.to(axes_found[0]["C"].dtype)
    if out_channels is None:  # a dense reference layer has a D but does not use it
        layer.D.copy_(state_dict["D"])
    for index, (space, found) in enumerate(zip(layer.spaces, axes_found, strict=True)):
        values = {ours: found[theirs] for theirs, ours in NAMES.items() if theirs in found}
        if "P" in found:
            values["C"] = _refold(found, int(found["l_kernel"]), sizes[index])
        if index == 0:
            values["C"] = values["C"] / rank  # the reference averages over rank, we sum
        space.load_state_dict(values)
    return layer


def _axes_of(state_dict: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    axes: dict[int, dict[str, Tensor]] = {}
    for key, value in state_dict.items():
        parts = key.split(".")
        if parts[0] == "kernel" and len(parts) == 3:
            axes.setdefault(int(parts[1]), {})[parts[2]] = value
    if not axes or sorted(axes) != list(range(len(axes))) or "D" not in state_dict:
        raise ValueError(
            "not the state dict of a reference S4ND: expected D, kernel.0.inv_dt, kernel.0.A_real, "
            f"got {', '.join(list(state_dict)[:6])}"
        )
    return [axes[index] for index in sorted(axes)]


def _period(stored: int, size: int) -> int:
    """The reference doubles a period that is too short; 0 means C was never folded."""
    period = stored or size
    while period < size:
        period *= 2
    return period


def _refold(found: Mapping[str, Tensor], stored: int, size: int) -> Tensor:
    """C as it must be stored for the period that `_period` chose."""
    pairs = {name: torch.view_as_complex(found[name].double().contiguous()) for name in "BCP"}
    c, dt = pairs["C"], found["inv_dt"].double().exp()
    a = torch.complex(-found["A_real"].double().exp(), -found["A_imag"].double())
    space = tile(StateSpace(a, pairs["B"][0], pairs["P"], torch.ones_like(a)), c.shape[1])
    if stored == 0:
        c = fold(c, space, dt, size)
    while 0 < stored < size:
        c, stored = unfold(c, space, dt, stored), 2 * stored
    return torch.view_as_real(c).to(found["C"].dtype)
