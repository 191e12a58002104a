"""Products with small planes: equal to torch, for any layout, batch and number of threads."""

import pytest
import torch

from s4nd import compiled
from s4nd.compiled import operators


def inputs_of(shape, dtype=torch.float64, last=False):
    signal = torch.randn(shape, dtype=dtype)
    if last:
        signal = signal.movedim(1, -1).contiguous().movedim(-1, 1)
    skip = torch.randn(shape[1], dtype=dtype)
    matrices = [torch.randn(shape[1], n, n, dtype=dtype) for n in shape[2:]]
    return [x.requires_grad_() for x in (signal, skip, *matrices)]


def product(signal, skip, *matrices):
    return compiled.separable_product(signal, skip, matrices)


def plain_product(signal, skip, left, right):
    return left @ signal @ right.mT + skip[:, None, None] * signal


def is_plane_product(y):
    return "plane_product" in y.grad_fn.name()


SHAPES = [
    (3, 16, 7, 5),
    (2, 48, 4, 14),
    (20, 16, 3, 1),
    (5, 32, 9, 8),
    (0, 16, 4, 4),
    (1, 16, 64, 64),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("last", [False, True])
def test_values_and_gradients_equal_plain_torch(shape, last):
    """Also sums over a batch in parts, margins of tiles, and a gradient laid out otherwise."""
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-4)):
        inputs = inputs_of(shape, dtype, last)
        found, expected = product(*inputs), plain_product(*inputs)
        assert is_plane_product(found)
        weight = torch.randn(shape, dtype=dtype)
        if not last:
            weight = weight.movedim(1, -1).contiguous().movedim(-1, 1)
        gradients = torch.autograd.grad(found, inputs, weight)
        assert found.stride() == gradients[0].stride() == inputs[0].stride()
        expected = [expected, *torch.autograd.grad(expected, inputs, weight)]
        for mine, other in zip([found, *gradients], expected, strict=True):
            scale = float(other.detach().abs().max()) if other.numel() else 1.0
            torch.testing.assert_close(mine, other, rtol=0, atol=tolerance * scale)


def test_derivatives_by_differences():
    assert torch.autograd.gradcheck(product, inputs_of((2, 16, 2, 3)), fast_mode=True)


def test_only_small_planes_with_channels_in_groups():
    for shape, expected in (
        ((1, 16, 64, 64), True), ((1, 16, 64, 65), False), ((1, 24, 4, 4), False),
        ((1, 16, 2, 4, 4), False),
    ):  # fmt: skip
        assert is_plane_product(product(*inputs_of(shape))) is expected


def test_an_infinite_number_stays_in_its_channel():
    inputs = inputs_of((2, 32, 6, 6))
    clean = [product(*inputs)]
    clean += torch.autograd.grad(clean[0].sum(), inputs)
    with torch.no_grad():
        inputs[0][0, 3] = torch.inf
    found = [product(*inputs)]
    found += torch.autograd.grad(found[0].sum(), inputs)
    others = [channel for channel in range(32) if channel != 3]
    for index, (mine, other) in enumerate(zip(found, clean, strict=True)):
        channel_axis = 1 if index < 2 else 0
        mine, other = (x.movedim(channel_axis, 0)[others] for x in (mine, other))
        assert torch.equal(mine, other)
    assert torch.equal(found[0][1], clean[0][1])  # the other sample


@pytest.mark.parametrize("last", [False, True])
def test_results_do_not_depend_on_the_number_of_threads(last):
    """To the last bit, with a batch that is divided into parts."""
    before, found = torch.get_num_threads(), []
    inputs = inputs_of((21, 32, 7, 6), torch.float32, last)
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            y = product(*inputs)
            found.append([y, *torch.autograd.grad(y.square().sum(), inputs)])
    finally:
        torch.set_num_threads(before)
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


def test_the_operator_is_registered_as_torch_expects():
    """Schema, autograd, fake results and traced gradients, by torch's own check."""
    for last in (False, True):
        torch.library.opcheck(operators._plane_product, inputs_of((2, 16, 3, 4), last=last))
