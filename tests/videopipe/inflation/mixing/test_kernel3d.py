"""Folded 3D kernels and temporal patches are what Conv3d computes."""

import pytest
import torch
from timm.layers import Conv2dSame, ScaledStdConv2d, StdConv2d
from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.networks.layers.convolution import fold_patches
from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch
from videopipe.inflation.mixing.kernel3d import FoldedConv3d
from videopipe.inflation.mixing.temporal_patch import PatchConv, PatchPixels

CLIPS, STEPS = 2, 5
CONVOLUTIONS = {
    "dense": lambda: nn.Conv2d(4, 6, 3, 2, 1),
    "depthwise": lambda: nn.Conv2d(6, 6, 5, padding=2, groups=6),
    "grouped, dilated": lambda: nn.Conv2d(4, 6, 3, padding=2, dilation=2, groups=2, bias=False),
    "reflecting": lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
    "same as TensorFlow": lambda: Conv2dSame(4, 6, 3, 2),
    "standardised": lambda: StdConv2d(4, 6, 3, padding=1, bias=True),
    "scaled and standardised": lambda: ScaledStdConv2d(4, 6, 3, bias=True),
}


def fold(clip: Tensor) -> Tensor:
    return clip.transpose(1, 2).flatten(0, 1)


@pytest.mark.parametrize("padding", ["replicate", "zeros"])
@pytest.mark.parametrize("length", [1, 2, 3, 5, 7])
def test_equals_conv3d(padding: str, length: int) -> None:
    spatial = nn.Conv2d(4, 6, 3, 2, 1)
    layer = FoldedConv3d(spatial, FoldedBatch(CLIPS, STEPS), length=length, padding=padding)
    nn.init.normal_(layer.weight)
    clip = torch.randn(CLIPS, 4, STEPS, 8, 8)
    left = (length - 1) // 2
    mode = {"replicate": "replicate", "zeros": "constant"}[padding]
    padded = functional.pad(clip, (0, 0, 0, 0, left, length - 1 - left), mode=mode)
    expected = functional.conv3d(padded, layer.weight, layer.bias, (1, 2, 2), (0, 1, 1))
    torch.testing.assert_close(layer(fold(clip)), fold(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("fill", ["repeat", "center"])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_still_video_gives_the_2d_response(kind: str, fill: str) -> None:
    spatial = CONVOLUTIONS[kind]()
    channels = spatial.in_channels
    image = torch.randn(1, channels, 9, 9)
    expected = spatial(image)
    layer = FoldedConv3d(spatial, FoldedBatch(1, STEPS), length=3, fill=fill)
    actual = layer(image.expand(STEPS, -1, -1, -1))
    torch.testing.assert_close(actual, expected.expand_as(actual), rtol=1e-4, atol=1e-5)
    assert layer.stride == spatial.stride


def test_kernel_is_repeated_and_divided_or_not() -> None:
    weight = nn.Conv2d(2, 3, 3).weight.detach()
    for scale, factor in (("length", 1 / 3), ("none", 1.0)):
        spatial = nn.Conv2d(2, 3, 3)
        spatial.weight.data.copy_(weight)
        layer = FoldedConv3d(spatial, FoldedBatch(), length=3, scale=scale)
        assert layer.weight.shape == (3, 2, 3, 3, 3)
        for tap in layer.weight.unbind(2):
            torch.testing.assert_close(tap, weight * factor)


def test_centre_kernel_holds_the_2d_weights_and_zeros() -> None:
    spatial = nn.Conv2d(2, 3, 3)
    weight = spatial.weight.detach().clone()
    layer = FoldedConv3d(spatial, FoldedBatch(), length=5, fill="center")
    assert torch.equal(layer.weight[:, :, 2], weight)
    assert layer.weight.count_nonzero() == weight.count_nonzero()


@pytest.mark.parametrize("frames", [4, 5])
def test_patch_equals_conv3d_of_that_stride(frames: int) -> None:
    layer = PatchConv(nn.Conv2d(3, 6, 4, 4), 2)
    nn.init.normal_(layer.weight)
    clip = torch.randn(CLIPS, 3, frames, 8, 8)
    expected = functional.conv3d(clip, layer.weight, layer.bias, (2, 4, 4))
    torch.testing.assert_close(layer(fold_patches(clip, 2)), fold(expected), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "same as TensorFlow", "standardised"])
def test_patch_of_equal_frames_is_the_2d_response(kind: str) -> None:
    spatial = CONVOLUTIONS[kind]()
    image = torch.randn(1, 4, 9, 9)
    expected = spatial(image)
    layer = PatchConv(spatial, 3)
    clip = image[:, :, None].expand(-1, -1, 6, -1, -1)
    actual = layer(fold_patches(clip, 3))
    torch.testing.assert_close(actual, expected.expand_as(actual), rtol=1e-4, atol=1e-5)


def test_pixels_of_a_patch_are_averaged() -> None:
    clip = torch.randn(2, 3, 4, 5, 5)
    steps = PatchPixels(3, 2)(fold_patches(clip, 2))
    expected = clip.view(2, 3, 2, 2, 5, 5).mean(3).transpose(1, 2).flatten(0, 1)
    torch.testing.assert_close(steps, expected)


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_weights_stay_frozen(frozen: bool) -> None:
    convolutions = [nn.Conv2d(2, 3, 3).requires_grad_(not frozen) for _ in range(2)]
    patch = PatchConv(convolutions[0], 2)
    kernel = FoldedConv3d(convolutions[1], FoldedBatch(), length=3)
    found = [
        parameter.requires_grad for layer in (patch, kernel) for parameter in layer.parameters()
    ]
    assert found == [not frozen] * 4


@pytest.mark.parametrize("size", [(7, 1), (1, 7)])
def test_kernels_need_not_be_square(size: tuple[int, int]) -> None:
    spatial = StdConv2d(4, 6, size, padding=0, bias=True)
    image = torch.randn(1, 4, 9, 9)
    expected = spatial(image)
    layer = FoldedConv3d(spatial, FoldedBatch(1, STEPS), length=3)
    actual = layer(image.expand(STEPS, -1, -1, -1))
    torch.testing.assert_close(actual, expected.expand_as(actual), rtol=1e-4, atol=1e-5)
