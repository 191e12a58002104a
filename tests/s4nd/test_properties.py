"""Properties that hold for every shape, basis and parameter."""

import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from s4nd import S4ND, AxisConfig
from s4nd.kernels.bases import BASES

SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def layers(draw):
    """A float64 layer of one to three axes and a signal for it."""
    torch.manual_seed(draw(st.integers(0, 10**6)))
    channels = 2 * draw(st.integers(1, 2))
    axes = [
        AxisConfig(
            draw(st.integers(1, 9)),
            state=draw(st.sampled_from([2, 6])),
            basis=draw(st.sampled_from(list(BASES))),
            bidirectional=draw(st.booleans()),
            length=draw(st.sampled_from([None, 0.5, 7.0])),
            copies=2,
            start=draw(
                st.sampled_from(["random", "deterministic", "identity", "difference", "paper"])
            ),
            bandlimit=draw(st.sampled_from([None, 0.3])),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    layer = S4ND(channels, axes, rank=draw(st.integers(1, 2))).double()
    sizes = [draw(st.integers(1, 8)) for _ in axes]
    rate = draw(st.sampled_from([0.5, 1.0, 1.5]))
    return layer, torch.randn(2, channels, *sizes).double(), rate


@SETTINGS
@given(layers())
def test_engines_agree(case):
    layer, signal, rate = case
    with torch.no_grad():
        layer.engine = "matmul"
        matmul = layer(signal, rate)
        layer.engine = "fft"
        torch.testing.assert_close(matmul, layer(signal, rate), rtol=1e-9, atol=1e-9)
    assert matmul.shape == signal.shape
    assert torch.isfinite(matmul).all()


@SETTINGS
@given(layers())
def test_linear_and_independent_of_the_batch(case):
    layer, signal, rate = case
    with torch.no_grad():
        one, two = layer(signal[:1], rate), layer(signal[1:], rate)
        torch.testing.assert_close(layer(signal, rate), torch.cat((one, two)))
        both = layer(2 * signal[:1] - 3 * signal[1:], rate)
        torch.testing.assert_close(both, 2 * one - 3 * two, rtol=1e-8, atol=1e-8)


@SETTINGS
@given(layers())
def test_padding_with_zeros_does_not_change_what_was_there(case):
    """The layer assumes zeros outside the signal, so more zeros must not change the output.

    A `difference` axis is left out: a short signal cuts its kernel, and what is subtracted at lag 0
    is the sum of the taps that remain.
    """
    layer, signal, rate = case
    assume(all(axis.start != "difference" for axis in layer.axes))
    sizes = [max(round(a.size / rate), 1) for a in layer.axes]
    cropped = signal[(..., *[slice(0, n) for n in sizes])]  # within reach of the kernels
    padded = torch.nn.functional.pad(cropped, [0, 2] * len(sizes))
    with torch.no_grad():
        inside = layer(padded, rate)[(..., *[slice(0, n) for n in cropped.shape[2:]])]
        torch.testing.assert_close(inside, layer(cropped, rate), rtol=1e-8, atol=1e-8)


@SETTINGS
@given(layers())
def test_forward_changes_nothing_and_gradients_are_finite(case):
    layer, signal, rate = case
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    first = layer(signal, rate)
    layer(signal, 2 * rate)
    assert torch.equal(layer(signal, rate), first)
    first.square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert torch.equal(parameter, before[name])
        assert torch.isfinite(parameter.grad).all(), name
