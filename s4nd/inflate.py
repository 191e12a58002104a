"""Add an axis to a trained layer."""

from __future__ import annotations

import torch

from s4nd.axis import AxisConfig
from s4nd.layer import S4ND


@torch.no_grad()
def inflate(layer: S4ND, axis: AxisConfig, *, position: int = 0) -> S4ND:
    """A layer with `axis` inserted before axis `position`; the weights of the others stay the same.

    With `start="identity"` on the new axis the result equals the given layer on every slice, up to
    rounding.
    """
    count = len(layer.axes)
    if not 0 <= position <= count:
        raise ValueError(f"position must be between 0 and {count}, got {position}")
    axes = [*layer.axes[:position], axis, *layer.axes[position:]]
    inflated = S4ND(
        layer.channels,
        axes,
        rank=layer.rank,
        engine=layer.engine,
        out_channels=layer.out_channels,
        multiplier=layer.multiplier,
    ).to(layer.D)
    for old in range(count):
        new = old if old < position else old + 1
        inflated.spaces[new].load_state_dict(layer.spaces[old].state_dict())
    inflated.D.copy_(layer.D)
    bandlimits = list(layer.bandlimit)
    bandlimits.insert(position, axis.bandlimit)
    inflated.bandlimit = bandlimits
    return inflated.train(layer.training)
