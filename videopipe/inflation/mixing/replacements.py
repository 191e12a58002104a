"""From a planned layer to the module that takes its place."""

from typing import Any

import torch
from torch import Tensor, nn

from videopipe.inflation.mixing.adapter import TimeAdapter
from videopipe.inflation.mixing.attention import TimeAttention
from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch
from videopipe.inflation.mixing.kernel3d import FoldedConv3d
from videopipe.inflation.mixing.shift import TimeShift
from videopipe.inflation.mixing.state_space import StateSpaceKernel, state_space_kernel
from videopipe.inflation.mixing.temporal_patch import PatchConv
from videopipe.inflation.mixing.time_kernel import TapKernel, TimeMixing
from videopipe.inflation.mixing.time_mixed import TimeMixed, TimePooling
from videopipe.inflation.options import InflationError, InflationOptions
from videopipe.inflation.planning.layer_plan import InflationPlan, PlannedLayer


def replacement(
    layer: nn.Module, planned: PlannedLayer, plan: InflationPlan, batch: FoldedBatch
) -> nn.Module:
    """The layer with time: a 3D kernel, or the 2D layer followed by a module along time."""
    options = plan.options
    if planned.role == "patch":
        return PatchConv(layer, options.temporal_patch, options.scale)
    if planned.role == "pool":
        return TimeMixed(layer, TimePooling(batch, reduction=planned.reduction))
    if planned.role == "kernel":
        return FoldedConv3d(
            layer,
            batch,
            length=options.temporal_kernel,
            fill="center" if options.method == "center" else "repeat",
            scale=options.scale,
            padding=options.padding,
            reduction=planned.reduction,
            causal=not options.bidirectional,
        )
    like = next(layer.parameters(), torch.empty(0))
    return TimeMixed(layer, _along_time(planned, plan, batch).to(like.device))


def _along_time(planned: PlannedLayer, plan: InflationPlan, batch: FoldedBatch) -> nn.Module:
    options = plan.options
    place: dict[str, Any] = {"channel_dim": planned.channel_dim, "reduction": planned.reduction}
    place["causal"] = not options.bidirectional
    if options.method == "shift":
        return TimeShift(planned.channels, batch, padding=options.padding, **place)
    if options.method == "attention":
        return TimeAttention(planned.channels, batch, heads=options.attention_heads, **place)
    if options.method == "adapter":
        width = options.adapter_width or max(1, planned.channels // 4)
        mixing = _mixing(width, -1, planned, plan, batch)
        return TimeAdapter(planned.channels, width, mixing, channel_dim=planned.channel_dim)
    return _mixing(planned.channels, planned.channel_dim, planned, plan, batch)


def _mixing(
    channels: int, channel_dim: int, planned: PlannedLayer, plan: InflationPlan, batch: FoldedBatch
) -> TimeMixing:
    return TimeMixing(
        _kernel(channels, planned, plan),
        batch,
        channel_dim=channel_dim,
        padding=plan.options.padding,
        reduction=planned.reduction,
    )


def _kernel(
    channels: int, planned: PlannedLayer, plan: InflationPlan
) -> TapKernel | StateSpaceKernel:
    options = plan.options
    in_adapter = options.method == "adapter" and options.adapter_kernel == "s4nd"
    if options.method == "s4nd" or in_adapter:
        try:
            return state_space_kernel(
                channels, planned.reduction, options, endless=plan.version > 1
            )
        except ValueError as error:
            raise InflationError(f"time axis after {planned.name}: {error}") from error
    return TapKernel(_taps(channels, options), causal=not options.bidirectional)


def _taps(channels: int, options: InflationOptions) -> Tensor:
    """Initial taps: random in an adapter, a delta for center, else a box of gain 1.

    Attention has no kernel to repeat: i3d mixes its output per channel.
    """
    length = options.temporal_kernel
    if options.method == "adapter":
        return torch.empty(channels, length).uniform_(-1, 1) / length**0.5
    if options.method == "center":
        taps = torch.zeros(channels, length)
        taps[:, (length - 1) // 2 if options.bidirectional else -1] = 1
        return taps
    shared = options.method == "s3d" and options.temporal_weights == "layer"
    gain = length if options.method == "i3d" and options.scale == "none" else 1
    return torch.full((1 if shared else channels, length), gain / length)
