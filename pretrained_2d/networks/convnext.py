"""ConvNeXt for images and clips, with convolutions or S4ND as the mixing layer.

Liu et al., "A ConvNet for the 2020s" (2022); Nguyen et al., "S4ND" (2022), section 5, appendix B.
One class serves 2 axes (height, width) and 3 (time, height, width).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pretrained_2d.networks.layers.blocks import DropPath, Perceptron, classifier, drop_path_rates
from pretrained_2d.networks.layers.convolution import Convolution
from pretrained_2d.networks.layers.downsampling import (
    ConvolutionDownsample,
    PatchStem,
    S4NDDownsample,
    S4NDStem,
)
from pretrained_2d.networks.layers.mixers import AxisPlan, Mixer, Rate, make_mixer, replace_layers
from s4nd import S4ND, Call, sampled_together

SPATIAL_AXIS = {"state": 64, "basis": "fourier", "dt_min": 0.1, "dt_max": 1.0}
# The paper's best temporal initialisation: kernels one step long, half of the channels legs,
# half fourier, each with a state space of its own.
TIME_AXIS = {"basis": "hippo", "copies": "channels", "length": 1.0, "start": "deterministic"}


@dataclass(frozen=True, kw_only=True)
class ConvNeXtConfig:
    """The options of ConvNeXt; the defaults are ConvNeXt-T on ImageNet."""

    num_classes: int = 1000
    ndim: int = 2
    mixer: Mixer = "conv"
    depths: Sequence[int] = (3, 3, 9, 3)
    widths: Sequence[int] = (96, 192, 384, 768)
    stem: Literal["patch", "s4nd"] = "patch"
    downsample: Literal["conv", "s4nd"] = "conv"
    image_size: int | Sequence[int] = 224  # pixels of the base grid; one number or (height, width)
    num_frames: int = 30  # of the base grid, before patches
    patch: int = 4  # pixels
    temporal_patch: int = 2  # frames
    temporal_kernel: int = 3  # steps, of convolutions
    temporal_padding: Literal["zeros", "replicate"] = "zeros"  # along time, of convolutions
    temporal_strides: Sequence[int] = (1, 1, 1)  # of the three downsamplings
    kernel: int = 7  # pixels, of convolutions
    layer_scale: float | None = 1e-6
    init_gain: float | None = None  # weights start at gain / √(inputs); None: at 0.02, as the paper
    drop_path: float = 0.0
    head_dropout: float = 0.0
    axis: Mapping[str, Any] = field(default_factory=lambda: dict(SPATIAL_AXIS))
    time_axis: Mapping[str, Any] = field(default_factory=lambda: dict(TIME_AXIS))
    stem_time_axis: Mapping[str, Any] = field(default_factory=dict)  # as released: that of space
    stem_channels: int = 32  # of the S4ND stem
    stem_kernel: int | Sequence[int] = 16  # samples, of the S4ND stem; one for all axes or each
    downsample_activation: bool = False  # a GELU after the S4ND of a downsampling
    downsample_gated: bool = True  # a gated linear unit after it
    layers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # see `replace_layers`

    def __post_init__(self) -> None:
        if self.ndim not in (2, 3):
            raise ValueError(f"ndim is {self.ndim}; ConvNeXt takes 2 (images) or 3 (clips)")
        if self.mixer not in ("conv", "separable", "s4nd"):
            raise ValueError(f"mixer is {self.mixer!r}; ConvNeXt takes conv, separable or s4nd")
        if len(self.depths) != 4 or len(self.widths) != 4:
            raise ValueError(
                f"depths {tuple(self.depths)} and widths {tuple(self.widths)} must have 4 entries"
            )
        if self.mixer == "separable" and self.ndim == 2:
            raise ValueError("mixer 'separable' factors time from space: it needs ndim=3")

    @property
    def axes(self) -> AxisPlan:
        """The S4ND axes of height, width and time."""
        return AxisPlan(self.axis, self.time_axis)

    @property
    def input_size(self) -> tuple[int, ...]:
        """Samples of the base grid: (height, width) or (time, height, width)."""
        size = self.image_size
        pixels = (size, size) if isinstance(size, int) else tuple(size)
        return pixels if self.ndim == 2 else (self.num_frames, *pixels)

    @property
    def stem_sizes(self) -> tuple[int, ...]:
        """Longest kernel of the S4ND stem along each axis."""
        size = self.stem_kernel
        return (size,) * self.ndim if isinstance(size, int) else tuple(size)

    def strides(self, stage: int) -> tuple[int, ...]:
        """How much stage 0 (the stem) to 3 divides each axis by."""
        if stage == 0:
            return (self.temporal_patch, self.patch, self.patch)[3 - self.ndim :]
        return (self.temporal_strides[stage - 1], 2, 2)[3 - self.ndim :]

    def grid(self, stage: int) -> tuple[int, ...]:
        """Samples of the base grid inside a stage; at least one along each axis."""
        divisors = [prod(steps) for steps in zip(*map(self.strides, range(stage + 1)), strict=True)]
        return tuple(max(1, n // d) for n, d in zip(self.input_size, divisors, strict=True))


class ConvNeXtBlock(nn.Module):
    """Mix positions, then channels: signal + scale · perceptron(norm(mixer(signal)))."""

    def __init__(self, mixer: nn.Module, channels: int, scale: float | None, drop: float) -> None:
        super().__init__()
        self.mixer = mixer
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.mlp = Perceptron(channels, 4 * channels)
        self.scale = nn.Parameter(torch.full((channels,), scale)) if scale is not None else None
        self.drop_path = DropPath(drop)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, channels, *axes) -> the same shape."""
        branch = self.mixer(signal, rate).movedim(1, -1)  # (batch, *axes, channels)
        branch = branch.contiguous()  # once here, not in the norm and again in its gradient
        branch = self.mlp(self.norm(branch))
        if self.scale is not None:
            branch = branch * self.scale
        return signal + self.drop_path(branch).movedim(-1, 1)


class ConvNeXtStage(nn.Module):
    """Downsampling (none in the first stage), then blocks of one width."""

    def __init__(self, downsample: nn.Module | None, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.ModuleList(blocks)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, channels, *axes) -> (batch, wider, *shorter axes)."""
        if self.downsample is not None:
            signal = self.downsample(signal, rate)
        for block in self.blocks:
            signal = block(signal, rate)
        return signal


class ConvNeXt(nn.Module):
    """Stem, four stages, global mean, norm, classifier: `ConvNeXt(ndim=3, mixer="s4nd")`."""

    def __init__(self, config: ConvNeXtConfig | None = None, **options: Any) -> None:
        super().__init__()
        self.config = config = replace(config or ConvNeXtConfig(), **options)
        self.ndim = config.ndim
        self.stem = _stem(config)
        self.stages = nn.ModuleList(_stages(config))
        self.norm = nn.LayerNorm(config.widths[-1], eps=1e-6)
        self.dropout = nn.Dropout(config.head_dropout)
        self.head = classifier(config.widths[-1], config.num_classes)
        if config.init_gain is not None:
            _scale_to_inputs(self, config.init_gain)
        replace_layers(self, config.layers)

    def embed(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, *axes) -> (batch, features): the input of the classifier."""
        with sampled_together(self._calls(signal.shape[2:], rate)):
            signal = self.stem(signal, rate)
            for stage in self.stages:
                signal = stage(signal, rate)
        return self.norm(signal.flatten(2).mean(2))

    def _calls(self, sizes: Sequence[int], rate: Rate) -> list[Call]:
        """Every S4ND and what it will be called with, for a signal with these axes."""
        found = []
        for index, stage in enumerate(self.stages):
            assert isinstance(stage, ConvNeXtStage)
            reducing = stage.downsample if index else self.stem
            if isinstance(reducing, S4NDStem | S4NDDownsample):
                found.append(Call(reducing.mixer, sizes, rate))
            sizes = [n // step for n, step in zip(sizes, self.config.strides(index), strict=True)]
            mixers = [block.mixer for block in stage.blocks]
            found += [Call(mixer, sizes, rate) for mixer in mixers if isinstance(mixer, S4ND)]
        return found

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, *axes) -> (batch, num_classes) logits; `rate`: base samples per sample."""
        return self.head(self.dropout(self.embed(signal, rate)))


def _scale_to_inputs(network: nn.Module, gain: float) -> None:
    """Initialise weights by their number of inputs, which preserves the scale of signals."""
    for module in network.modules():
        if isinstance(module, nn.Linear | Convolution):
            nn.init.trunc_normal_(module.weight, std=gain * module.weight[0].numel() ** -0.5)


def _stages(config: ConvNeXtConfig) -> list[ConvNeXtStage]:
    rates = iter(drop_path_rates(config.drop_path, sum(config.depths)))
    kernel = (config.temporal_kernel, config.kernel, config.kernel)[3 - config.ndim :]
    stages = []
    for index, (depth, width) in enumerate(zip(config.depths, config.widths, strict=True)):
        blocks = []
        for _ in range(depth):
            mixer = make_mixer(
                config.mixer,
                width,
                kernel,
                config.grid(index),
                config.axes,
                repeat_ends=config.temporal_padding == "replicate",
            )
            blocks.append(ConvNeXtBlock(mixer, width, config.layer_scale, next(rates)))
        stages.append(ConvNeXtStage(_downsample(config, index) if index else None, blocks))
    return stages


def _stem(config: ConvNeXtConfig) -> nn.Module:
    width, patch = config.widths[0], config.strides(0)
    if config.stem == "s4nd":
        axes = AxisPlan(config.axis, config.stem_time_axis).configs(config.stem_sizes, 3)
        return S4NDStem(axes, config.stem_channels, width, patch)
    return PatchStem(width, patch, separable=config.mixer == "separable")


def _downsample(config: ConvNeXtConfig, stage: int) -> nn.Module:
    widths, strides = config.widths[stage - 1 : stage + 1], config.strides(stage)
    if config.downsample == "s4nd":
        axes = config.axes.configs(config.grid(stage - 1), widths[0])
        return S4NDDownsample(
            axes,
            widths,
            strides,
            activation=config.downsample_activation,
            gated=config.downsample_gated,
        )
    return ConvolutionDownsample(widths, strides, separable=config.mixer == "separable")
