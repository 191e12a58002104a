"""Inception-v1 with batch norm for images, and Inception-I3D, the same network inflated along time.

Szegedy et al., "Going deeper with convolutions" (2015); Ioffe and Szegedy, "Batch normalization"
(2015); Carreira and Zisserman, "Quo vadis, action recognition?" (2017). Layers are named as in the
published I3D weights (3b … 5c). Padding is TensorFlow's "SAME": where it cannot be even, the end
gets more. Batch norm shifts and does not scale, since a linear layer follows every ReLU.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.networks.layers.blocks import classifier
from pretrained_2d.networks.layers.convolution import Convolution, repeat_end_frames
from pretrained_2d.networks.layers.mixers import Rate

# Channels: 1×1; 1×1 -> 3×3; 1×1 -> 3×3; pool -> 1×1.
MIXED = {
    "mixed_3b": (64, (96, 128), (16, 32), 32),
    "mixed_3c": (128, (128, 192), (32, 96), 64),
    "mixed_4b": (192, (96, 208), (16, 48), 64),
    "mixed_4c": (160, (112, 224), (24, 64), 64),
    "mixed_4d": (128, (128, 256), (24, 64), 64),
    "mixed_4e": (112, (144, 288), (32, 64), 64),
    "mixed_4f": (256, (160, 320), (32, 128), 128),
    "mixed_5b": (256, (160, 320), (32, 128), 128),
    "mixed_5c": (384, (192, 384), (48, 128), 128),
}
POOLS_BEFORE = {  # kernel and stride, (time, height, width)
    "conv_2b": ((1, 3, 3), (1, 2, 2)),
    "mixed_3b": ((1, 3, 3), (1, 2, 2)),
    "mixed_4b": ((3, 3, 3), (2, 2, 2)),
    "mixed_5b": ((2, 2, 2), (2, 2, 2)),
}
FEATURES = 1024
FINAL_POOL = (2, 7, 7)


@dataclass(frozen=True, kw_only=True)
class InceptionConfig:
    """The options of Inception-v1; `norm_scale` adds a learned scale to every batch norm."""

    num_classes: int = 1000
    ndim: int = 2
    image_size: int = 224  # pixels
    num_frames: int = 64
    head_dropout: float = 0.0
    norm_scale: bool = False
    temporal_padding: Literal["zeros", "replicate"] = "zeros"  # along time, of convolutions

    def __post_init__(self) -> None:
        if self.ndim not in (2, 3):
            raise ValueError(f"ndim is {self.ndim}; Inception takes 2 (images) or 3 (clips)")

    @property
    def input_size(self) -> tuple[int, ...]:
        """(height, width) or (time, height, width)."""
        return (self.num_frames, self.image_size, self.image_size)[3 - self.ndim :]


class ShiftNorm(nn.Module):
    """Batch norm that subtracts the mean, divides by the deviation and adds a learned shift."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, *, scale: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels)) if scale else None
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, signal: Tensor) -> Tensor:
        """(batch, channels, *axes) -> the same shape."""
        scale = torch.ones_like(self.bias) if self.weight is None else self.weight
        mean, variance = self.running_mean, self.running_var
        return functional.batch_norm(
            signal, mean, variance, scale, self.bias, self.training, momentum=0.01, eps=1e-3
        )


class ConvolutionUnit(nn.Module):
    """Convolution without bias, batch norm, ReLU."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: Sequence[int], stride: int, scale: bool
    ) -> None:
        super().__init__()
        self.conv = Convolution(
            in_channels, out_channels, kernel, stride=[stride] * len(kernel), bias=False
        )
        self.norm = ShiftNorm(out_channels, scale=scale)

    def forward(self, signal: Tensor) -> Tensor:
        """(batch, in channels, *axes) -> (batch, out channels, *axes / stride)."""
        kernel = self.conv.weight.shape[2:]
        signal = pad_same(signal, kernel, self.conv.stride, repeat_ends=self.conv.repeat_ends)
        return functional.relu(self.norm(self.conv(signal)))


class Mixed(nn.Module):
    """Four branches, concatenated along the channels."""

    def __init__(self, in_channels: int, widths: Sequence[Any], ndim: int, scale: bool) -> None:
        super().__init__()
        direct, (narrow, wide), (thin, thick), pooled = widths
        point, cube = (1,) * ndim, (3,) * ndim
        self.branch_0 = ConvolutionUnit(in_channels, direct, point, 1, scale)
        self.branch_1 = nn.Sequential(
            ConvolutionUnit(in_channels, narrow, point, 1, scale),
            ConvolutionUnit(narrow, wide, cube, 1, scale),
        )
        self.branch_2 = nn.Sequential(
            ConvolutionUnit(in_channels, thin, point, 1, scale),
            ConvolutionUnit(thin, thick, cube, 1, scale),
        )
        self.branch_3 = ConvolutionUnit(in_channels, pooled, point, 1, scale)
        self.out_channels = direct + wide + thick + pooled

    def forward(self, signal: Tensor) -> Tensor:
        """(batch, in channels, *axes) -> (batch, out channels, *axes)."""
        cube = (3,) * (signal.ndim - 2)
        pooled = pool_maximum(signal, cube, (1,) * len(cube))
        views = self.branch_0(signal), self.branch_1(signal), self.branch_2(signal)
        return torch.cat([*views, self.branch_3(pooled)], dim=1)


class Inception(nn.Module):
    """Stem, nine mixed blocks, mean, classifier: `Inception(ndim=3, num_classes=400)`."""

    def __init__(self, config: InceptionConfig | None = None, **options: Any) -> None:
        super().__init__()
        self.config = config = replace(config or InceptionConfig(), **options)
        self.ndim = config.ndim
        ndim, scale = config.ndim, config.norm_scale
        layers: dict[str, nn.Module] = {
            "conv_1a": ConvolutionUnit(3, 64, (7,) * ndim, 2, scale),
            "conv_2b": ConvolutionUnit(64, 64, (1,) * ndim, 1, scale),
            "conv_2c": ConvolutionUnit(64, 192, (3,) * ndim, 1, scale),
        }
        channels = 192
        for name, widths in MIXED.items():
            mixed = Mixed(channels, widths, ndim, scale)
            layers[name], channels = mixed, mixed.out_channels
        self.layers = nn.ModuleDict(layers)
        for module in self.layers.modules():
            if isinstance(module, Convolution):
                module.repeat_ends = ndim == 3 and config.temporal_padding == "replicate"
        self.dropout = nn.Dropout(config.head_dropout)
        self.head = classifier(FEATURES, config.num_classes)

    def embed(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, *axes) -> (batch, 1024): the input of the classifier."""
        ndim = self.config.ndim
        last = torch.channels_last if ndim == 2 else torch.channels_last_3d
        signal = signal.contiguous(memory_format=last)  # pooling is ten times faster in this layout
        for name, layer in self.layers.items():
            if name in POOLS_BEFORE:
                kernel, stride = POOLS_BEFORE[name]
                signal = pool_maximum(signal, kernel[3 - ndim :], stride[3 - ndim :])
            signal = layer(signal)
        return pool_mean(signal, FINAL_POOL[3 - ndim :])

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, *axes) -> (batch, num_classes) logits; the rate is ignored."""
        return self.head(self.dropout(self.embed(signal, rate)))


def pad_same(
    signal: Tensor, kernel: Sequence[int], stride: Sequence[int], *, repeat_ends: bool = False
) -> Tensor:
    """Zeros around each axis so that a layer of this stride gives ⌈size / stride⌉ samples.

    Along time the end frames may be repeated instead.
    """
    margins: list[int] = []
    for size, length, step in zip(signal.shape[2:], kernel, stride, strict=True):
        total = max((-(-size // step) - 1) * step + length - size, 0)
        margins = [total // 2, total - total // 2, *margins]  # functional.pad starts at the end
    if repeat_ends:
        signal = repeat_end_frames(signal, margins[-2], margins[-1])
        margins = margins[:-2]
    return functional.pad(signal, margins) if any(margins) else signal


def pool_maximum(signal: Tensor, kernel: Sequence[int], stride: Sequence[int]) -> Tensor:
    """Maximum under a sliding window with "SAME" padding; zeros are harmless after a ReLU."""
    pool = functional.max_pool2d if len(kernel) == 2 else functional.max_pool3d
    return pool(pad_same(signal, kernel, stride), tuple(kernel), tuple(stride))


def pool_mean(signal: Tensor, window: Sequence[int]) -> Tensor:
    """(batch, channels, *axes) -> (batch, channels): mean over the means of sliding windows."""
    window = [min(size, length) for size, length in zip(signal.shape[2:], window, strict=True)]
    pool = functional.avg_pool2d if len(window) == 2 else functional.avg_pool3d
    return pool(signal, tuple(window), stride=1).flatten(2).mean(2)
