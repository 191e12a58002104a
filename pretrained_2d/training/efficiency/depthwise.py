"""Weight gradients of depthwise convolutions on a CPU, as matrix products.

The gradient of tap t is the sum of output gradient × input over all pairs of positions that t
connects. On small maps it is quicker to multiply all pairs, one matrix product per channel, and to
add up those of each tap. Without AVX-512, oneDNN has a quick loop for 3 × 3 taps only: the gradient
of 5 × 5 taps on 128 × 480 × 4 × 4 took 52 ms there and 1.8 ms here, on one core of an AMD EPYC.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.overrides import TorchFunctionMode

MOST_PAIRS = 128 * 128  # positions of the output × positions of the input


class DepthwiseByProducts(TorchFunctionMode):
    """Inside this context, depthwise calls of `conv2d` use `DepthwiseFunction` where it helps."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.conv2d or func is functional.conv2d:
            settings = _settings(*args, **kwargs)
            if settings is not None:
                return DepthwiseFunction.apply(*settings)
        return func(*args, **kwargs)


class DepthwiseFunction(torch.autograd.Function):
    """`conv2d` with one kernel per channel; only the gradient of its weight differs."""

    @staticmethod
    def forward(
        ctx: Any,
        signal: Tensor,  # (batch, channels, height, width)
        weight: Tensor,  # (channels, 1, *taps)
        bias: Tensor | None,
        stride: tuple[int, int],
        padding: tuple[int, int],
        dilation: tuple[int, int],
    ) -> Tensor:
        ctx.save_for_backward(signal, weight)
        ctx.geometry = stride, padding, dilation
        return functional.conv2d(signal, weight, bias, stride, padding, dilation, len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        signal, weight = ctx.saved_tensors
        stride, padding, dilation = ctx.geometry
        channels = len(weight)
        for_signal, for_weight, for_bias = ctx.needs_input_grad[:3]
        of_signal, _, of_bias = torch.ops.aten.convolution_backward(
            gradient, signal, weight, [channels], stride, padding, dilation,
            False, [0, 0], channels, [for_signal, False, for_bias],
        )  # fmt: skip
        of_weight = None
        if for_weight:
            inputs = signal.permute(1, 0, 2, 3).reshape(channels, len(signal), -1)
            outputs = gradient.permute(1, 2, 3, 0).reshape(channels, -1, len(signal))
            products = torch.bmm(outputs, inputs).reshape(channels, -1)  # all pairs of positions
            taps = tap_of_pairs(
                tuple(signal.shape[2:]), tuple(gradient.shape[2:]), tuple(weight.shape[2:]),
                stride, padding, dilation,
            )  # fmt: skip
            of_weight = (products @ taps.to(products.dtype)).reshape(weight.shape)
        return of_signal, of_weight, of_bias, None, None, None


@lru_cache(maxsize=64)
def tap_of_pairs(
    input_size: tuple[int, int],
    output_size: tuple[int, int],
    taps: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
) -> Tensor:
    """(output positions × input positions, taps): 1 where the tap connects the pair, else 0."""
    height, width = (
        torch.stack(
            [
                torch.arange(outputs)[:, None] * step + tap * gap - pad == torch.arange(inputs)
                for tap in range(count)
            ]
        ).float()  # (taps, outputs, inputs) of one axis
        for inputs, outputs, count, step, pad, gap in zip(
            input_size, output_size, taps, stride, padding, dilation, strict=True
        )
    )
    connected = torch.einsum("iay,jbx->abyxij", height, width)
    return connected.reshape(-1, taps[0] * taps[1])


def _settings(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> tuple[Any, ...] | None:
    """Arguments of `DepthwiseFunction` for a call of `conv2d`, or None if it does not apply."""
    if isinstance(padding, str) or input.ndim != 4 or input.device.type != "cpu":
        return None
    channels = input.shape[1]
    if not (groups == channels == len(weight)) or min(weight.shape[2:]) <= 3:
        return None
    if input.dtype != weight.dtype or torch.is_autocast_enabled("cpu"):
        return None
    pairs = input.shape[2:].numel() ** 2 // (_pair(stride)[0] * _pair(stride)[1])
    if pairs > MOST_PAIRS or not weight.requires_grad or not torch.is_grad_enabled():
        return None
    return input, weight, bias, _pair(stride), _pair(padding), _pair(dilation)


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])
