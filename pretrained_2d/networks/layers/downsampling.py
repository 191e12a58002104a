"""The stem and the downsampling layers of ConvNeXt.

All are called as `layer(signal, rate)` on (batch, channels, *axes). The S4ND forms mix with S4ND
at the finer grid and then average, so that what they compute does not depend on the resolution.
"""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.networks.layers.blocks import ChannelNorm, linear
from pretrained_2d.networks.layers.convolution import Convolution
from pretrained_2d.networks.layers.mixers import Rate, SeparableConvolution
from s4nd import S4ND, AxisConfig


def patch_convolution(
    in_channels: int, out_channels: int, patch: Sequence[int], *, separable: bool
) -> nn.Module:
    """A convolution whose kernel is its stride, so that patches do not overlap."""
    kind = SeparableConvolution if separable and len(patch) == 3 else Convolution
    return kind(in_channels, out_channels, patch, stride=patch)


class PatchStem(nn.Module):
    """Patches of pixels become vectors: convolution, norm."""

    def __init__(self, width: int, patch: Sequence[int], *, separable: bool) -> None:
        super().__init__()
        self.conv = patch_convolution(3, width, patch, separable=separable)
        self.norm = ChannelNorm(width, eps=1e-6)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, *axes) -> (batch, width, *axes / patch)."""
        return self.norm(self.conv(signal))


class ConvolutionDownsample(nn.Module):
    """Norm, then a convolution of non-overlapping patches."""

    def __init__(self, widths: Sequence[int], stride: Sequence[int], *, separable: bool) -> None:
        super().__init__()
        self.norm = ChannelNorm(widths[0], eps=1e-6)
        self.conv = patch_convolution(widths[0], widths[1], stride, separable=separable)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, narrow, *axes) -> (batch, wide, *axes / stride)."""
        return self.conv(self.norm(signal))


class S4NDStem(nn.Module):
    """A dense S4ND at full resolution, mean over patches, gated linear unit, norm."""

    def __init__(
        self, axes: Sequence[AxisConfig], hidden: int, width: int, patch: Sequence[int]
    ) -> None:
        super().__init__()
        self.patch = tuple(patch)
        self.mixer = S4ND(3, axes, out_channels=hidden)
        self.linear = linear(hidden, 2 * width)
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, *axes) -> (batch, width, *axes / patch)."""
        means = average(self.mixer(signal, rate), self.patch).movedim(1, -1)
        return self.norm(functional.glu(self.linear(means))).movedim(-1, 1)


class S4NDDownsample(nn.Module):
    """Norm, S4ND at the finer grid, mean over patches, (gated) linear layer."""

    def __init__(
        self,
        axes: Sequence[AxisConfig],
        widths: Sequence[int],
        stride: Sequence[int],
        *,
        activation: bool,
        gated: bool,
    ) -> None:
        super().__init__()
        narrow, wide = widths
        self.stride, self.activation, self.gated = tuple(stride), activation, gated
        self.norm = ChannelNorm(narrow, eps=1e-6)
        self.mixer = S4ND(narrow, axes)
        self.linear = linear(narrow, 2 * wide if gated else wide)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, narrow, *axes) -> (batch, wide, *axes / stride)."""
        signal = self.mixer(self.norm(signal), rate)
        if self.activation:
            signal = functional.gelu(signal)
        wide = self.linear(average(signal, self.stride).movedim(1, -1))
        return (functional.glu(wide) if self.gated else wide).movedim(-1, 1)


def average(signal: Tensor, patch: Sequence[int]) -> Tensor:
    """The mean over non-overlapping patches; what does not fill a patch at the end is left out."""
    pool = functional.avg_pool2d if len(patch) == 2 else functional.avg_pool3d
    return pool(signal, tuple(patch))
