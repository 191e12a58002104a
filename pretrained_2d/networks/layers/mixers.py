"""The mixing layers of blocks: a convolution, a separable convolution, or S4ND.

Every mixer is called as `mixer(signal, rate)`, signal (batch, channels, *axes) in and out. `rate`
is the number of base samples per current sample, one number or one per axis; only S4ND uses it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.networks.layers.blocks import linear
from pretrained_2d.networks.layers.convolution import (
    Convolution,
    fold_time,
    repeat_end_frames,
    unfold_time,
)
from s4nd import S4ND, AxisConfig

Rate = float | Sequence[float]
Mixer = Literal["conv", "separable", "s4nd"]


class DepthwiseConvolution(Convolution):
    """One kernel of odd lengths per channel, with zero padding that keeps the size."""

    def __init__(self, channels: int, kernel: Sequence[int], *, repeat_ends: bool = False) -> None:
        padding = [length // 2 for length in kernel]
        super().__init__(
            channels, channels, kernel, padding=padding, groups=channels, repeat_ends=repeat_ends
        )

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """Convolve; the rate is ignored."""
        return super().forward(signal)


class SeparableConvolution(nn.Module):
    """A 2D kernel for every channel times one time kernel for all: the factored 3D kernel of S3D.

    The product is never formed: frames are convolved in 2D, then time is mixed.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Sequence[int],
        *,
        stride: Sequence[int] = (1, 1, 1),
        padding: Sequence[int] = (0, 0, 0),
        groups: int = 1,
        repeat_ends: bool = False,
    ) -> None:
        super().__init__()
        self.repeat_ends = repeat_ends  # pad time with the end frames, not with zeros
        taps, *extent = kernel
        self.stride, self.padding, self.groups = tuple(stride), tuple(padding), groups
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *extent))
        self.time_weight = nn.Parameter(torch.full((taps,), 1.0 / taps))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        nn.init.trunc_normal_(self.weight, std=0.02)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, in channels, time, height, width) -> the same axes divided by the stride."""
        taps, step = len(self.time_weight), self.stride[0]
        if taps == step > 1:  # average the frames of a patch first: fewer frames to convolve
            steps = signal.shape[2] // taps
            patches = torch.unflatten(signal[:, :, : steps * taps], 2, (steps, taps))
            signal = torch.einsum("bcsthw,t->bcshw", patches, self.time_weight)
        frames = functional.conv2d(
            fold_time(signal), self.weight, None, self.stride[1:], self.padding[1:], 1, self.groups
        )
        mixed = unfold_time(frames, signal.shape[2])
        if taps != step:
            margin = self.padding[0]
            if self.repeat_ends:
                mixed, margin = repeat_end_frames(mixed, margin, margin), 0
            mixed = mix_time(mixed, self.time_weight, margin, step)
        elif taps == 1:
            mixed = mixed * self.time_weight
        return mixed + self.bias.view(-1, 1, 1, 1)


def mix_time(signal: Tensor, taps: Tensor, padding: int, stride: int = 1) -> Tensor:
    """Convolve time with one kernel for all channels, as one product with a banded matrix."""
    time = signal.shape[2]
    steps = (time + 2 * padding - len(taps)) // stride + 1
    lag = torch.arange(time, device=signal.device)[None, :] + padding
    lag = lag - stride * torch.arange(steps, device=signal.device)[:, None]  # (steps, time)
    inside = (lag >= 0) & (lag < len(taps))
    band = taps[lag.clamp(0, len(taps) - 1)] * inside
    last = signal.movedim(1, -1)  # (batch, time, height, width, channels), as blocks store it
    mixed = torch.unflatten(torch.matmul(band, last.flatten(2)), 2, last.shape[2:])
    return mixed.movedim(-1, 1)


class TiedDropout(nn.Module):
    """Dropout of whole channels: one mask for all positions of (batch, channels, *axes)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, signal: Tensor) -> Tensor:
        """The same shape; some channels zero and the others scaled up, in training only."""
        return torch.feature_dropout(signal, self.rate, self.training)


class GatedS4ND(nn.Module):
    """S4ND, GELU, dropout, and a gated linear unit that mixes channels."""

    def __init__(
        self, channels: int, axes: Sequence[AxisConfig], *, outputs: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.mixer = S4ND(channels, axes, multiplier=outputs)
        self.dropout = TiedDropout(dropout)
        self.linear = linear(outputs * channels, 2 * channels)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, channels, *axes) -> the same shape."""
        # Copies to a contiguous layout: on the strides of S4ND's products a GELU and its gradient
        # cost more than the products, and a step takes 1.5 times as long.
        mixed = self.dropout(functional.gelu(self.mixer(signal, rate).contiguous()))
        return functional.glu(self.linear(mixed.movedim(1, -1).contiguous())).movedim(-1, 1)


@dataclass(frozen=True)
class AxisPlan:
    """The S4ND axes of a network: keywords of `AxisConfig`, without the sizes.

    `copies` may be "channels": every channel then has its own state space.
    """

    space: Mapping[str, Any] = field(default_factory=dict)
    time: Mapping[str, Any] = field(default_factory=dict)  # differences from space, in 3D

    def configs(self, sizes: Sequence[int], channels: int) -> list[AxisConfig]:
        """The axes in tensor order: (height, width) or (time, height, width)."""
        configs = []
        for position, size in enumerate(sizes):
            is_time = len(sizes) == 3 and position == 0
            options = {**self.space, **(self.time if is_time else {})}
            if options.get("copies") == "channels":
                options["copies"] = channels
            configs.append(AxisConfig(size, **options))
        return configs


def make_mixer(
    kind: Mixer,
    channels: int,
    kernel: Sequence[int],
    sizes: Sequence[int],
    plan: AxisPlan,
    *,
    repeat_ends: bool = False,
) -> nn.Module:
    """The mixer of one block: `kernel` for convolutions; `sizes` of the base grid for S4ND."""
    if kind == "s4nd":
        return S4ND(channels, plan.configs(sizes, channels))
    if kind == "separable" and len(kernel) == 3:
        padding = [length // 2 for length in kernel]
        return SeparableConvolution(
            channels, channels, kernel, padding=padding, groups=channels, repeat_ends=repeat_ends
        )
    return DepthwiseConvolution(channels, kernel, repeat_ends=repeat_ends)


def replace_layers(network: nn.Module, layers: Mapping[str, Mapping[str, Any]]) -> None:
    """Give the named S4ND layers axes that differ from those of the others.

    layers: name -> {"axes": keywords of AxisConfig for each axis, "rank": number}, all JSON.
    """
    for name, changes in layers.items():
        planned = network.get_submodule(name)
        if not isinstance(planned, S4ND):
            raise ValueError(f"layer {name!r} is not an S4ND, so it cannot have axes of its own")
        layer = S4ND(
            planned.channels,
            [AxisConfig(**axis) for axis in changes["axes"]],
            rank=changes.get("rank", 1),
            out_channels=planned.out_channels,
            multiplier=planned.multiplier,
        )
        network.set_submodule(name, layer)
