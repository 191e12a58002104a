"""Several frames as one step of time, by the network's first layer."""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from videopipe.inflation.mixing.kernel3d import (
    Scale,
    inflated_weight,
    is_linear_in_weight,
    take_bias,
)
from videopipe.inflation.mixing.time_mixed import AroundLayer


class PatchConv(AroundLayer):
    """The first convolution with a kernel and stride of `patch` frames: (out, in, patch, h, w).

    Along time kernel and stride are equal, so it is a 2D convolution over `patch` times as many
    channels.
    """

    def __init__(self, spatial: nn.Module, patch: int, scale: Scale = "length") -> None:
        super().__init__()
        weight = spatial.weight
        assert isinstance(weight, nn.Parameter)
        in_weights = is_linear_in_weight(spatial)
        divide = in_weights and scale == "length"
        self.weight = nn.Parameter(
            inflated_weight(weight.detach(), 2, patch, divide),
            requires_grad=weight.requires_grad,
        )
        self.bias = take_bias(spatial)
        spatial.register_parameter("weight", None)
        self.spatial = spatial  # last: names of its attributes cannot be assigned after it
        self.divisor = 1 if in_weights else patch

    def forward(self, folded: Tensor) -> Tensor:
        """(clips × steps, channels × patch, h, w) -> (clips × steps, out, …)."""
        response = functional_call(self.spatial, {"weight": self.weight.flatten(1, 2)}, (folded,))
        if self.divisor != 1:
            response = response / self.divisor
        if self.bias is None:
            return response
        return response + self.bias.view(-1, 1, 1).to(response.dtype)


class PatchPixels(nn.Module):
    """One picture from `patch` frames, where the first layer is not a plain convolution.

    A weight per channel and frame, starting as the average.
    """

    def __init__(self, channels: int, patch: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels, patch), 1 / patch))

    def forward(self, folded: Tensor) -> Tensor:
        """(clips × steps, channels × patch, h, w) -> (clips × steps, channels, h, w)."""
        frames = folded.view(len(folded), *self.weight.shape, *folded.shape[2:])
        return (frames * self.weight[:, :, None, None].to(frames.dtype)).sum(2)
