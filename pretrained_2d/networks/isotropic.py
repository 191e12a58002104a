"""The isotropic network of the paper: one width and one grid from the first layer to the last.

Gu et al., "Efficiently modeling long sequences with structured state spaces" (2022), with S4ND or a
convolution in place of the 1D layer, so that it takes sequences, images and clips as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.networks.layers.blocks import classifier, linear
from pretrained_2d.networks.layers.convolution import Convolution
from pretrained_2d.networks.layers.mixers import (
    AxisPlan,
    DepthwiseConvolution,
    GatedS4ND,
    Rate,
    TiedDropout,
    replace_layers,
)
from s4nd import Call, sampled_together

CIFAR_AXIS = {"state": 64, "basis": "legs", "dt_min": 0.1, "dt_max": 1.0}


@dataclass(frozen=True, kw_only=True)
class IsotropicConfig:
    """The options of `isotropic`; the defaults are S4ND-ISO on CIFAR-10 (paper, Table 1)."""

    num_classes: int = 10
    ndim: int = 2
    mixer: Literal["s4nd", "conv", "dense"] = "s4nd"  # conv: depthwise, then 1×1
    depth: int = 8
    width: int = 512
    image_size: int | Sequence[int] = 32  # samples of the base grid; one number or (height, width)
    num_frames: int = 16  # along time
    kernel: int = 3  # samples, of convolutions
    temporal_padding: Literal["zeros", "replicate"] = "zeros"  # along time, of convolutions
    dropout: float = 0.1  # of whole channels, in every layer and on every branch
    head_dropout: float = 0.0
    axis: Mapping[str, Any] = field(default_factory=lambda: dict(CIFAR_AXIS))
    time_axis: Mapping[str, Any] = field(default_factory=dict)
    layers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # see `replace_layers`

    def __post_init__(self) -> None:
        if self.ndim not in (1, 2, 3):
            raise ValueError(f"ndim is {self.ndim}; isotropic takes 1, 2 or 3 axes")
        if self.mixer not in ("s4nd", "conv", "dense"):
            raise ValueError(f"mixer is {self.mixer!r}; isotropic takes s4nd, conv or dense")
        if self.mixer != "s4nd" and self.kernel % 2 == 0:
            raise ValueError(f"kernel is {self.kernel}; it must be odd to keep the size")

    @property
    def input_size(self) -> tuple[int, ...]:
        """Samples of the base grid: (width,), (height, width) or (time, height, width)."""
        size = self.image_size
        pixels = (size, size) if isinstance(size, int) else tuple(size)
        return (self.num_frames, *pixels)[3 - self.ndim :]


class ConvolutionLayer(nn.Module):
    """Convolution, GELU, dropout; after a depthwise convolution a linear layer mixes channels."""

    def __init__(self, config: IsotropicConfig) -> None:
        super().__init__()
        kernel = (config.kernel,) * config.ndim
        repeat_ends = config.temporal_padding == "replicate"
        if config.mixer == "dense":
            padding = [length // 2 for length in kernel]
            self.conv: nn.Module = Convolution(
                config.width, config.width, kernel, padding=padding, repeat_ends=repeat_ends
            )
        else:
            self.conv = DepthwiseConvolution(config.width, kernel, repeat_ends=repeat_ends)
        self.dropout = TiedDropout(config.dropout)
        self.linear = linear(config.width, config.width) if config.mixer == "conv" else None

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, channels, *axes) -> the same shape."""
        signal = self.dropout(functional.gelu(self.conv(signal)))
        if self.linear is None:
            return signal
        return self.linear(signal.movedim(1, -1)).movedim(-1, 1)


class IsotropicBlock(nn.Module):
    """signal + dropout(layer(norm(signal)))."""

    def __init__(self, layer: nn.Module, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixer = layer
        self.dropout = TiedDropout(dropout)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, *axes, channels) -> the same shape."""
        branch = self.mixer(self.norm(signal).movedim(-1, 1), rate)
        return signal + self.dropout(branch).movedim(1, -1)


class Isotropic(nn.Module):
    """Linear encoder, blocks, norm, mean over positions, classifier."""

    def __init__(self, config: IsotropicConfig | None = None, **options: Any) -> None:
        super().__init__()
        self.config = config = replace(config or IsotropicConfig(), **options)
        self.ndim = config.ndim
        self.encoder = linear(3, config.width)
        self.blocks = nn.ModuleList(
            IsotropicBlock(_layer(config), config.width, config.dropout)
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.head_dropout)
        self.head = classifier(config.width, config.num_classes)
        replace_layers(self, config.layers)

    def embed(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, *axes) -> (batch, width): the input of the classifier."""
        hidden = self.encoder(signal.movedim(1, -1))  # (batch, *axes, width)
        with sampled_together(self._calls(signal.shape[2:], rate)):
            for block in self.blocks:
                hidden = block(hidden, rate)
        return self.norm(hidden).flatten(1, -2).mean(1)

    def _calls(self, sizes: Sequence[int], rate: Rate) -> list[Call]:
        """Every S4ND and what it will be called with."""
        mixers = [block.mixer for block in self.blocks]
        return [Call(m.mixer, sizes, rate) for m in mixers if isinstance(m, GatedS4ND)]

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, *axes) -> (batch, num_classes) logits; `rate`: base samples per sample."""
        return self.head(self.dropout(self.embed(signal, rate)))


def _layer(config: IsotropicConfig) -> nn.Module:
    if config.mixer != "s4nd":
        return ConvolutionLayer(config)
    axes = AxisPlan(config.axis, config.time_axis).configs(config.input_size, config.width)
    return GatedS4ND(config.width, axes, dropout=config.dropout)
