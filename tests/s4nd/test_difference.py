"""start="difference" responds to changes only, at every length, rate and parameter."""

import pytest
import torch

import s4nd
from s4nd import S4ND, AxisConfig
from s4nd.axis import AxisStateSpace
from s4nd.kernels.initial import START_NORM

BASES = ["legs", "fourier", "hippo", "diag-lin"]


def difference(**options):
    return AxisConfig(8, **{"state": 16, "copies": 2, "length": 4, "start": "difference"} | options)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("rate", [1.0, 0.5, 2.0, 1.37])
def test_taps_sum_to_one_after_any_change_of_the_parameters(basis, bidirectional, rate):
    space = AxisStateSpace(difference(basis=basis, bidirectional=bidirectional), 4)
    with torch.no_grad():
        for parameter in space.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for length in (1, 3, round(8 / rate)):
            sums = space.taps(length, rate).sum(-1)
            torch.testing.assert_close(sums, torch.ones(1, 4), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_kernel_beside_the_delta_starts_with_a_fixed_norm(basis, outputs):
    space = AxisStateSpace(difference(basis=basis), 4, outputs)
    drawn = space(8)  # (directions outputs, channels, size), without the delta
    norms = drawn.view(2, outputs, 4, 8).square().sum((0, 3)).sqrt()
    torch.testing.assert_close(norms, torch.full((outputs, 4), START_NORM), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"out_channels": 3}, {"multiplier": 2}])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("frames", "rate"), [(8, 1.0), (11, 1.0), (4, 2.0), (16, 0.5), (1, 1.0)])
def test_a_still_video_gives_what_its_image_gives(engine, options, bidirectional, frames, rate):
    layer = S4ND(4, [AxisConfig(6, state=8), AxisConfig(7, state=8)], **options).double()
    time = difference(basis="diag-lin", padding="replicate", bidirectional=bidirectional)
    grown = s4nd.inflate(layer, time)
    grown.engine = engine
    image = torch.randn(2, 4, 6, 7).double()
    with torch.no_grad():
        still = grown(image[:, :, None].expand(-1, -1, frames, -1, -1), (rate, 1.0, 1.0))
        expected = layer(image)[:, :, None].expand_as(still)
    torch.testing.assert_close(still, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"out_channels": 3}])
def test_engines_agree_where_ends_are_repeated(options):
    axes = [difference(padding="replicate"), AxisConfig(5, state=8, padding="replicate")]
    layer = S4ND(4, axes, **options).double()
    signal = torch.randn(2, 4, 10, 6).double()
    with torch.no_grad():
        layer.engine = "matmul"
        product = layer(signal, (2.0, 1.0))
        layer.engine = "fft"
        torch.testing.assert_close(product, layer(signal, (2.0, 1.0)), rtol=1e-8, atol=1e-8)


@pytest.mark.usefixtures("form")
def test_repeated_ends_are_those_of_a_longer_signal():
    """Away from its own ends, a signal with its end samples written out gives the same."""
    layer = S4ND(3, [AxisConfig(4, state=8, padding="replicate")]).double()
    signal = torch.randn(1, 3, 9).double()
    longer = torch.nn.functional.pad(signal, (6, 6), mode="replicate")
    with torch.no_grad():
        torch.testing.assert_close(layer(longer)[..., 6:-6], layer(signal))


@pytest.mark.parametrize("basis", BASES)
def test_every_parameter_has_a_gradient_from_the_first_step(basis):
    layer = S4ND(4, [difference(basis=basis, padding="replicate")])
    signal = torch.randn(2, 4, 8)
    (layer(signal) * torch.randn(2, 4, 8)).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.abs().sum() > 0, name


def test_without_a_padding_configs_of_earlier_checkpoints_keep_their_meaning():
    assert AxisConfig(8).padding == "zeros"
    assert AxisConfig(8).start == "random"


def test_a_wrong_padding_is_named():
    with pytest.raises(ValueError, match="padding must be zeros or replicate, got 'reflect'"):
        AxisConfig(8, padding="reflect")
