"""A true 3D kernel on folded frames: one 2D convolution per tap, shifted along time and summed.

Mathematically a Conv3d of stride 1 along time. On CPU it is several times faster than Conv3d for
depthwise kernels, and it works for every 2D convolution that has a weight: "same" padding as in
TensorFlow, standardised weights, weights mixed per sample.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from videopipe.inflation.clock import Clock
from videopipe.inflation.time_kernel import Padding

Scale = Literal["length", "none"]


class FoldedConv3d(nn.Module):
    """A 2D convolution whose weight has gained a time axis: (out, in, time, height, width).

    (Last where the 2D weight is a bank of another shape.) `divisor` divides the output: it is 1
    where the weights themselves carry the 1/length, and the length where the convolution rescales
    its weights: standardisation would undo the factor.
    """

    def __init__(
        self,
        spatial: nn.Module,
        clock: Clock,
        *,
        length: int,
        fill: Literal["repeat", "center"] = "repeat",
        scale: Scale = "length",
        padding: Padding = "replicate",
        reduction: int = 1,
    ) -> None:
        super().__init__()
        weight = spatial.weight
        assert isinstance(weight, nn.Parameter)
        divides = fill == "repeat" and scale == "length"
        in_weights = divides and is_linear_in_weight(spatial)
        self.time_dim = 2 if weight.ndim == 4 else weight.ndim
        self.length = length
        self.weight = nn.Parameter(
            inflated_weight(weight.detach(), self.time_dim, length, fill, in_weights),
            requires_grad=weight.requires_grad,
        )
        self.bias = take_bias(spatial)
        spatial.register_parameter("weight", None)
        self.spatial = spatial
        self.clock = clock
        self.divisor = length if divides and not in_weights else 1
        self.padding: Padding = padding
        self.reduction = reduction

    def __getattr__(self, name: str) -> Any:
        """Networks may ask their convolution for its stride or number of channels."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("spatial"), name)

    def forward(self, folded: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """(clips × steps × parts, channels, height, width) -> the convolution's output, folded."""
        total: Tensor | None = None
        for tap, weight in enumerate(self.weight.unbind(self.time_dim)):
            response = functional_call(self.spatial, {"weight": weight}, (folded, *args), kwargs)
            moved = self._shift(response, tap - (self.length - 1) // 2)
            total = moved if total is None else total + moved
        assert total is not None
        if self.divisor != 1:
            total = total / self.divisor
        return total if self.bias is None else total + self.bias.view(-1, 1, 1).to(total.dtype)

    def _shift(self, folded: Tensor, offset: int) -> Tensor:
        """Step t takes what lies at step t + offset."""
        if offset == 0:
            return folded
        signal = self.clock.unfold(folded, self.reduction)
        steps = signal.shape[1]
        offset = max(-steps, min(steps, offset))
        beyond = signal[:, -1:] if offset > 0 else signal[:, :1]
        if self.padding == "zeros":
            beyond = torch.zeros_like(beyond)
        beyond = beyond.expand(-1, abs(offset), *signal.shape[2:])
        parts = (signal[:, offset:], beyond) if offset > 0 else (beyond, signal[:, :offset])
        return torch.cat(parts, dim=1).view(folded.shape)


def inflated_weight(weight: Tensor, time_dim: int, length: int, fill: str, divide: bool) -> Tensor:
    """A 2D weight repeated along time (divided by its length or not), or set in the middle."""
    taps = weight.unsqueeze(time_dim).repeat_interleave(length, time_dim)
    if fill == "center":
        keep = torch.zeros(length, dtype=weight.dtype, device=weight.device)
        keep[(length - 1) // 2] = 1
        return taps * keep.view(length, *(1,) * (taps.ndim - time_dim - 1))
    return taps / length if divide else taps


def take_bias(spatial: nn.Module) -> nn.Parameter | None:
    """The bias, taken out of the convolution: taps are summed and the bias comes once."""
    bias = spatial.bias
    spatial.register_parameter("bias", None)
    return bias if isinstance(bias, nn.Parameter) else None


@torch.no_grad()
def is_linear_in_weight(spatial: nn.Module) -> bool:
    """Whether half the weight gives half the response, bias aside.

    Standardised and normalised weights do not: there the factor has to go to the output.
    """
    if type(spatial).forward is nn.Conv2d.forward:
        return True
    weight = spatial.weight
    assert isinstance(weight, nn.Parameter)
    if weight.ndim != 4:
        return True  # a bank of weights, mixed per sample
    size = 2 * max(weight.shape[2:]) + 1
    channels = weight.shape[1] * int(spatial.groups)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    image = torch.randn(1, channels, size, size, generator=generator).to(weight)
    rest = functional_call(spatial, {"weight": torch.zeros_like(weight)}, (image,))
    whole = functional_call(spatial, {"weight": weight}, (image,)) - rest
    half = functional_call(spatial, {"weight": weight / 2}, (image,)) - rest
    return torch.allclose(half, whole / 2, rtol=1e-3, atol=1e-3 * float(whole.abs().max()))
