"""Convolution over 1, 2 or 3 axes, written once, with faster routes in 3D.

A 3D convolution is a sum over its time taps of 2D convolutions of the frames. Optimised 2D code is
several times quicker on a CPU than its 3D counterpart, so frames are folded into the batch wherever
that gives the same sum: kernels without extent in time, patches of frames, and depthwise kernels.
"""

from collections.abc import Sequence

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

Ints = Sequence[int]  # one for each axis


class Convolution(nn.Module):
    """A convolution of (batch, channels, *axes); `kernel` has one length for each axis."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: Sequence[int],
        *,
        stride: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        groups: int = 1,
        bias: bool = True,
        repeat_ends: bool = False,
    ) -> None:
        super().__init__()
        ndim = len(kernel)
        self.repeat_ends = repeat_ends and ndim == 3  # pad time with the end frames, not with zeros
        self.stride = tuple(stride or (1,) * ndim)
        self.padding = tuple(padding or (0,) * ndim)
        self.groups = groups
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *kernel))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        nn.init.trunc_normal_(self.weight, std=0.02)

    def forward(self, signal: Tensor) -> Tensor:
        """(batch, in channels, *axes) -> (batch, out channels, *axes / stride)."""
        padding = self.padding
        if self.repeat_ends:
            signal, padding = repeat_end_frames(signal, padding[0], padding[0]), (0, *padding[1:])
        return convolve(signal, self.weight, self.bias, self.stride, padding, self.groups)

    def extra_repr(self) -> str:
        out_channels, in_channels, *kernel = self.weight.shape
        return f"{in_channels * self.groups}, {out_channels}, kernel={tuple(kernel)}"


def convolve(
    signal: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints,
    groups: int = 1,
) -> Tensor:
    """Convolve 1 or 2 axes, or 3 by the quickest exact route; zeros stand outside the signal."""
    if weight.ndim == 3:
        return functional.conv1d(signal, weight, bias, tuple(stride), tuple(padding), 1, groups)
    if weight.ndim == 4:
        return functional.conv2d(signal, weight, bias, tuple(stride), tuple(padding), 1, groups)
    taps, step, margin = weight.shape[2], stride[0], padding[0]
    if weight[0, 0].numel() == 1 and set(stride) == {1} and not any(padding) and groups == 1:
        return functional.linear(signal.movedim(1, -1), weight.flatten(1), bias).movedim(-1, 1)
    depthwise = groups == weight.shape[0] == signal.shape[1]
    if taps == step and margin == 0 and groups == 1:
        return _convolve_patches_of_frames(signal, weight, bias, stride, padding)
    if taps == 1 and step == 1 and margin == 0:
        return _convolve_frames(signal, weight[:, :, 0], bias, stride, padding, groups)
    whole = 2 * margin == taps - 1 or margin == 0
    if depthwise and step == 1 and whole and signal.device.type == "cpu":
        return _convolve_tap_by_tap(signal, weight, bias, stride, padding)
    return functional.conv3d(signal, weight, bias, tuple(stride), tuple(padding), 1, groups)


def repeat_end_frames(signal: Tensor, before: int, after: int) -> Tensor:
    """(batch, channels, time, …) with the first and the last frame repeated outwards."""
    if before == after == 0:
        return signal
    rest = signal.shape[3:]
    first = signal[:, :, :1].expand(-1, -1, before, *rest)
    last = signal[:, :, -1:].expand(-1, -1, after, *rest)
    return torch.cat((first, signal, last), dim=2)


def fold_time(signal: Tensor) -> Tensor:
    """(batch, channels, time, height, width) -> (batch·time, channels, height, width)."""
    return rearrange(signal, "b c t h w -> (b t) c h w")


def unfold_time(frames: Tensor, time: int) -> Tensor:
    """(batch·time, channels, height, width) -> (batch, channels, time, height, width)."""
    return rearrange(frames, "(b t) c h w -> b c t h w", t=time)


def fold_patches(signal: Tensor, patch: int) -> Tensor:
    """(batch, channels, time, height, width) -> (batch·steps, channels·patch, height, width).

    Frames that do not fill a last step are left out, as by a Conv3d of stride `patch`.
    """
    whole = signal[:, :, : signal.shape[2] // patch * patch].flatten(3)  # five dimensions at most
    folded = rearrange(whole, "b c (t p) x -> (b t) (c p) x", p=patch)
    return torch.unflatten(folded, -1, signal.shape[3:])


def _convolve_frames(
    signal: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints, groups: int
) -> Tensor:
    """Every frame by itself; stride and padding begin with those of time, which do not matter."""
    frames = functional.conv2d(
        fold_time(signal), weight, bias, tuple(stride[1:]), tuple(padding[1:]), 1, groups
    )
    return unfold_time(frames, signal.shape[2])


def _convolve_patches_of_frames(
    signal: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints
) -> Tensor:
    """Frames that fall under one patch become channels of one image."""
    taps = weight.shape[2]
    steps = signal.shape[2] // taps
    if steps == 0:
        raise ValueError(f"a clip of {signal.shape[2]} frames is shorter than a patch of {taps}")
    images = fold_patches(signal, taps)
    frames = functional.conv2d(
        images, weight.flatten(1, 2), bias, tuple(stride[1:]), tuple(padding[1:])
    )
    return unfold_time(frames, steps)


def _convolve_tap_by_tap(
    signal: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints
) -> Tensor:
    """A depthwise kernel, one time tap after another: output[t] = Σ conv2d(input[t + offset])."""
    time, margin, channels = signal.shape[2], padding[0], signal.shape[1]
    steps = time + 2 * margin - weight.shape[2] + 1
    total: Tensor | None = None
    for tap in sorted(range(weight.shape[2]), key=lambda tap: abs(tap - margin)):
        offset = tap - margin
        if abs(offset) >= time:
            continue  # this tap falls outside the clip at every step
        begin, end = max(0, offset), min(time, steps + offset)
        frames, once = signal[:, :, begin:end], bias if offset == 0 else None
        part = _convolve_frames(frames, weight[:, :, tap], once, stride, padding, channels)
        if total is None:
            total = part
        else:
            total[:, :, begin - offset : end - offset] += part
    assert total is not None
    return total
