"""A true 3D kernel on folded frames: one 2D convolution per tap, shifted along time and summed.

Mathematically a Conv3d of stride 1 along time. On CPU it is several times faster than Conv3d for
depthwise kernels, and it works for every 2D convolution that has a weight: "same" padding as in
TensorFlow, standardised weights, weights mixed per sample.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch, shifted
from videopipe.inflation.mixing.folding.stream_states import finite_response
from videopipe.inflation.mixing.time_mixed import AroundLayer
from videopipe.inflation.options import Padding

Scale = Literal["length", "none"]


class FoldedConv3d(AroundLayer):
    """A 2D convolution whose weight has gained a time axis: (out, in, time, height, width).

    (Last where the 2D weight is a bank of another shape.) `divisor` divides the output: it is 1
    where the weights are divided by the length, and the length where the convolution standardises
    its weights, which would undo a factor.
    """

    def __init__(
        self,
        spatial: nn.Module,
        batch: FoldedBatch,
        *,
        length: int,
        fill: Literal["repeat", "center"] = "repeat",
        scale: Scale = "length",
        padding: Padding = "replicate",
        reduction: int = 1,
        causal: bool = False,
    ) -> None:
        super().__init__()
        weight = spatial.weight
        assert isinstance(weight, nn.Parameter)
        divides = fill == "repeat" and scale == "length"
        in_weights = divides and is_linear_in_weight(spatial)
        self.time_dim = 2 if weight.ndim == 4 else weight.ndim
        self.length = length
        self.present = length - 1 if causal else (length - 1) // 2  # the tap of lag 0
        only = self.present if fill == "center" else None
        self.weight = nn.Parameter(
            inflated_weight(weight.detach(), self.time_dim, length, in_weights, only=only),
            requires_grad=weight.requires_grad,
        )
        self.bias = take_bias(spatial)
        spatial.register_parameter("weight", None)
        self.spatial = spatial  # last: names of its attributes cannot be assigned after it
        self.batch = batch
        self.divisor = length if divides and not in_weights else 1
        self.padding: Padding = padding
        self.reduction = reduction

    def forward(self, folded: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """(clips × steps × parts, channels, height, width) -> the convolution's output, folded."""
        taps = self.weight.unbind(self.time_dim)
        responses = [
            functional_call(self.spatial, {"weight": tap}, (folded, *args), kwargs) for tap in taps
        ]
        if self.batch.streaming is not None:
            total = self.batch.streaming.advance(
                self, lambda state: finite_response(responses[::-1], state, self.padding)
            )
        else:
            total = self._sum_over_time(responses)
        if self.divisor != 1:
            total = total / self.divisor
        return total if self.bias is None else total + self.bias.view(-1, 1, 1).to(total.dtype)

    def _sum_over_time(self, responses: Sequence[Tensor]) -> Tensor:
        """Each response moved by the lag of its tap, and summed."""
        total: Tensor | None = None
        for tap, response in enumerate(responses):
            moved = self._moved(response, tap - self.present)
            total = moved if total is None else total + moved
        assert total is not None
        return total

    def _moved(self, folded: Tensor, offset: int) -> Tensor:
        """Step t takes the value of step t + offset; the memory layout is kept."""
        if not folded.is_contiguous() and folded.is_contiguous(memory_format=torch.channels_last):
            return self._moved(folded.permute(0, 2, 3, 1), offset).permute(0, 3, 1, 2)
        signal = self.batch.unfold(folded, self.reduction)
        return shifted(signal, offset, self.padding).view(folded.shape)


def inflated_weight(
    weight: Tensor, time_dim: int, length: int, divide: bool, *, only: int | None = None
) -> Tensor:
    """A 2D weight repeated along time (divided by its length or not), or at one tap `only`."""
    taps = weight.unsqueeze(time_dim).repeat_interleave(length, time_dim)
    if only is not None:
        keep = torch.zeros(length, dtype=weight.dtype, device=weight.device)
        keep[only] = 1
        return taps * keep.view(length, *(1,) * (taps.ndim - time_dim - 1))
    return taps / length if divide else taps


def take_bias(spatial: nn.Module) -> nn.Parameter | None:
    """Remove the bias from the convolution and return it; it is added once to the sum of taps."""
    bias = spatial.bias
    spatial.register_parameter("bias", None)
    return bias if isinstance(bias, nn.Parameter) else None


@torch.no_grad()
def is_linear_in_weight(spatial: nn.Module) -> bool:
    """Whether half the weight gives half the response, bias aside.

    Standardised and normalised weights do not; for these the output is divided instead.
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
