import pytest
import torch
from torch.nn import functional

from pretrained_2d.networks.layers.convolution import convolve
from pretrained_2d.networks.layers.mixers import SeparableConvolution

CASES = {
    "depthwise": ((8, 1, 3, 7, 7), (1, 1, 1), (1, 3, 3), 8),
    "depthwise, long in time": ((8, 1, 7, 3, 3), (1, 1, 1), (3, 1, 1), 8),
    "patches": ((6, 8, 2, 4, 4), (2, 4, 4), (0, 0, 0), 1),
    "one frame": ((6, 8, 1, 2, 2), (1, 2, 2), (0, 0, 0), 1),
    "one frame in groups": ((8, 2, 1, 3, 3), (1, 1, 1), (0, 1, 1), 4),
    "point": ((6, 8, 1, 1, 1), (1, 1, 1), (0, 0, 0), 1),
    "strided point": ((6, 8, 1, 1, 1), (2, 2, 2), (0, 0, 0), 1),
    "dense": ((6, 8, 3, 3, 3), (1, 1, 1), (1, 1, 1), 1),
    "dense and strided": ((6, 8, 3, 3, 3), (2, 2, 2), (1, 1, 1), 1),
}


def fits(case: str, time: int) -> bool:
    """The padded clip is at least as long as the kernel."""
    shape, _, padding, _ = CASES[case]
    return time + 2 * padding[0] >= shape[2]


@pytest.mark.parametrize(
    ("case", "time"), [(c, t) for c in CASES for t in (1, 2, 3, 6) if fits(c, t)]
)
def test_every_route_is_the_3d_convolution(case: str, time: int) -> None:
    shape, stride, padding, groups = CASES[case]
    signal = torch.randn(2, 8, time, 12, 12, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(shape[0], dtype=torch.float64)
    ours = convolve(signal, weight, bias, stride, padding, groups)
    theirs = functional.conv3d(signal, weight, bias, stride, padding, 1, groups)
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn_like(theirs)
    gradients = torch.autograd.grad(ours, (signal, weight), upstream)
    expected = torch.autograd.grad(theirs, (signal, weight), upstream)
    torch.testing.assert_close(gradients, expected)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "groups"),
    [
        ((3, 7, 7), (1, 1, 1), (1, 3, 3), 8),
        ((5, 3, 3), (1, 1, 1), (2, 1, 1), 1),
        ((2, 4, 4), (2, 4, 4), (0, 0, 0), 1),
        ((1, 2, 2), (1, 2, 2), (0, 0, 0), 1),
    ],
)
def test_a_separable_kernel_is_the_outer_product(kernel, stride, padding, groups) -> None:
    layer = SeparableConvolution(8, 8, kernel, stride=stride, padding=padding, groups=groups)
    layer = layer.double()
    torch.nn.init.normal_(layer.time_weight)
    torch.nn.init.normal_(layer.bias)
    signal = torch.randn(2, 8, 6, 12, 12, dtype=torch.float64)
    product = layer.weight[:, :, None] * layer.time_weight[:, None, None]
    expected = functional.conv3d(signal, product, layer.bias, stride, padding, 1, groups)
    torch.testing.assert_close(layer(signal), expected)


def test_a_clip_shorter_than_a_patch_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 frames is shorter than a patch of 2"):
        convolve(torch.zeros(1, 3, 1, 8, 8), torch.zeros(4, 3, 2, 4, 4), None, (2, 4, 4), (0, 0, 0))
