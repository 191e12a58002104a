"""The time axis of a video network: which parameters it has, and how long its kernels are."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from pretrained_2d.networks.layers.convolution import Convolution
from pretrained_2d.networks.layers.mixers import SeparableConvolution
from s4nd import S4ND
from s4nd.axis import AxisStateSpace
from videopipe.inflation.mixing.adapter import TimeAdapter
from videopipe.inflation.mixing.attention import TimeAttention
from videopipe.inflation.mixing.kernel3d import FoldedConv3d
from videopipe.inflation.mixing.state_space import StateSpaceKernel
from videopipe.inflation.mixing.temporal_patch import PatchConv, PatchPixels
from videopipe.inflation.mixing.time_kernel import TapKernel

Quartiles = tuple[float, float, float]  # 25 %, median, 75 % over the channels


def time_spaces(model: nn.Module) -> Iterator[tuple[str, AxisStateSpace]]:
    """The state space along time of every layer that has one, from input to output, by name."""
    for name, module in model.named_modules():
        if isinstance(module, S4ND) and len(module.axes) in (1, 3):
            space = module.spaces[0]  # (time, height, width), or time alone
            assert isinstance(space, AxisStateSpace)
            yield f"{name}.spaces.0", space
        elif isinstance(module, StateSpaceKernel):
            yield f"{name}.axis", module.axis


def time_parameters(model: nn.Module) -> set[str]:
    """Names of the parameters that mix frames.

    A true 3D kernel cannot be divided into space and time: all of it counts. So do all parameters
    of an adapter and of attention along time.
    """
    found = {f"{name}.{own}" for name, s in time_spaces(model) for own, _ in s.named_parameters()}
    for name, module in model.named_modules():
        if isinstance(module, SeparableConvolution):
            found.add(f"{name}.time_weight")
        elif isinstance(module, FoldedConv3d | PatchConv | PatchPixels | TapKernel) or (
            isinstance(module, Convolution | nn.Conv3d) and _extends_in_time(module.weight)
        ):
            found.add(f"{name}.weight")
        elif isinstance(module, TimeAdapter | TimeAttention):
            found |= {f"{name}.{own}" for own, _ in module.named_parameters()}
    return found


def _extends_in_time(weight: Tensor | None) -> bool:
    """Whether a weight has taps along time; None inside a FoldedConv3d, which holds the weight."""
    return weight is not None and weight.ndim == 5 and weight.shape[2] > 1


def kernel_lengths(model: nn.Module) -> dict[str, Quartiles]:
    """The length 2/Δ of every time kernel, in steps of the network's time: quartiles over channels.

    Empty for networks without state spaces along time: their kernels have a fixed number of taps.
    """
    found = {}
    for name, space in time_spaces(model):
        lengths = 2 / space.log_dt.detach().double().exp().flatten().cpu().numpy()
        low, middle, high = (float(value) for value in np.quantile(lengths, [0.25, 0.5, 0.75]))
        found[name] = (low, middle, high)
    return found


def learned_lengths(
    initial: Mapping[str, Quartiles], learned: Mapping[str, Quartiles]
) -> Sequence[dict[str, Any]]:
    """Layer by layer, what the length was and what it became, as JSON."""
    return [
        {
            "layer": name,
            "initial_length": initial[name][1],
            "learned_length": middle,
            "learned_low": low,
            "learned_high": high,
        }
        for name, (low, middle, high) in learned.items()
    ]
