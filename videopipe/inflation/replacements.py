"""From a planned layer to the module that takes its place."""

import torch
from torch import Tensor, nn

from videopipe.inflation.clock import Clock
from videopipe.inflation.kernel3d import FoldedConv3d
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.plan import InflationError, PlannedLayer
from videopipe.inflation.state_space import state_space_kernel
from videopipe.inflation.temporal_patch import PatchConv
from videopipe.inflation.time_kernel import TapKernel, TimeMixing
from videopipe.inflation.time_mixed import TimeMixed, TimePooling


def replacement(
    layer: nn.Module, planned: PlannedLayer, options: InflationOptions, clock: Clock
) -> nn.Module:
    """The layer with time: a 3D kernel, or the 2D layer followed by something along time."""
    if planned.role == "patch":
        return PatchConv(layer, options.temporal_patch, options.scale)
    if planned.role == "pool":
        return TimeMixed(layer, TimePooling(clock, reduction=planned.reduction))
    if planned.role == "kernel":
        return FoldedConv3d(
            layer,
            clock,
            length=options.temporal_kernel,
            fill="center" if options.method == "center" else "repeat",
            scale=options.scale,
            padding=options.padding,
            reduction=planned.reduction,
        )
    like = next(layer.parameters(), torch.empty(0))
    mixing = TimeMixing(
        _kernel(planned, options),
        clock,
        channel_dim=planned.channel_dim,
        padding=options.padding,
        reduction=planned.reduction,
    )
    return TimeMixed(layer, mixing.to(like.device))


def _kernel(planned: PlannedLayer, options: InflationOptions) -> nn.Module:
    if options.method == "s4nd":
        try:
            return state_space_kernel(planned.channels, planned.reduction, options)
        except ValueError as error:
            raise InflationError(f"time axis behind {planned.name}: {error}") from error
    return TapKernel(_taps(planned.channels, options))


def _taps(channels: int, options: InflationOptions) -> Tensor:
    """A box of gain 1, or a delta. Attention has no kernel to repeat: i3d mixes it per channel."""
    length = options.temporal_kernel
    if options.method == "center":
        taps = torch.zeros(channels, length)
        taps[:, (length - 1) // 2] = 1
        return taps
    shared = options.method == "s3d" and options.temporal_weights == "layer"
    gain = length if options.method == "i3d" and options.scale == "none" else 1
    return torch.full((1 if shared else channels, length), gain / length)
