"""The axes of a model's S4ND layers, and their kernels as arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from s4nd.axis import AxisStateSpace

Values = NDArray[np.floating[Any]]
AXIS_NAMES: Mapping[int, Sequence[str]] = {
    1: ("position",),
    2: ("height", "width"),
    3: ("time", "height", "width"),
}


@dataclass(frozen=True)
class DrawnAxis:
    """The kernels of one layer along one axis."""

    layer: str
    axis: str  # "time", "height", "width", "position"
    size: int  # samples of the base grid
    bandlimit: float | None
    taps: Values  # (kernels, 2 size - 1), lag 0 in the middle
    lengths: Values  # (channels,) 2/Δ in samples

    @property
    def lags(self) -> Values:
        """In samples of the base grid."""
        return np.arange(1 - self.size, self.size, dtype=np.float64)


def draw_axes(model: nn.Module) -> list[DrawnAxis]:
    """Every axis of every S4ND layer, from input to output."""
    return [_draw(name, axis, space) for name, axis, space in find_spaces(model)]


def find_spaces(model: nn.Module) -> list[tuple[str, str, AxisStateSpace]]:
    """(layer, name of the axis, its state space), also of layers with a time axis only."""
    modules = dict(model.named_modules())
    found = []
    for name, module in modules.items():
        if not isinstance(module, AxisStateSpace):
            continue
        holder, _, own = name.rpartition(".")
        if own.isdigit():  # one of the spaces of an S4ND layer
            layer, siblings = holder.rpartition(".")[0], modules[holder]
            count = len(siblings) if isinstance(siblings, nn.ModuleList) else 1
            names = AXIS_NAMES.get(count, [f"axis {i}" for i in range(count)])
            found.append((layer, names[int(own)], module))
        else:  # the time kernel of a folded network
            found.append((holder, "time", module))
    return found


@torch.no_grad()
def _draw(layer: str, axis: str, space: AxisStateSpace) -> DrawnAxis:
    size = space.config.size
    taps = space.taps(size)[..., 1:].flatten(0, 1).double().cpu().numpy()
    lengths = 2 / space.log_dt.double().exp().flatten().cpu().numpy()
    return DrawnAxis(layer, axis, size, space.bandlimit, taps, lengths)


def seconds_per_step(card: ModelCard, size: int) -> float | None:
    """Duration of one step of a time axis of `size` steps; None if the card has no clip length."""
    return card.clip_seconds / size if card.clip_seconds else None


def response(axis: DrawnAxis) -> tuple[Values, Values]:
    """Frequencies in cycles per sample, and |transform| of each kernel: (F,), (kernels, F)."""
    points = max(128, 4 * axis.size)
    return np.fft.rfftfreq(points), np.abs(np.fft.rfft(axis.taps, points, axis=-1))
