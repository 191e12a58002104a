"""Kernels of several layers generated together equal those of layers that make their own."""

import copy

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from s4nd import S4ND, AxisConfig, Call, compiled, sampled_together

pytestmark = pytest.mark.usefixtures("plain")

LAYERS = {
    "one": {},
    "wider": {"channels": 6},
    "copies": {"copies": 4},
    "copies of a wider one": {"channels": 6, "copies": 6},
    "copies of some": {"channels": 6, "copies": 3},
    "fourier": {"basis": "fourier"},
    "diagonal": {"basis": "diag-lin"},
    "bilinear": {"basis": "diag-inv", "discretisation": "bilinear", "copies": 2},
    "the same held": {"basis": "diag-inv", "discretisation": "zoh", "copies": 2},
    "longer period": {"period": 9},
    "repeated ends": {"padding": "replicate"},
    "larger state": {"state": 8},
    "two columns of P": {"low_rank": 2},
    "one-sided": {"bidirectional": False},
    "bandlimit": {"bandlimit": 0.3},
    "identity": {"start": "identity"},
    "difference": {"start": "difference", "padding": "replicate"},
    "multiplier": {"layer": {"multiplier": 2}},
    "dense": {"layer": {"out_channels": 4, "rank": 2}},
    "fft": {"layer": {"engine": "fft"}},
}


def layers():
    """One layer of each kind twice, and the signals they are called with."""
    for options in (*LAYERS.values(), *LAYERS.values()):
        kind = dict(options)
        channels, more = kind.pop("channels", 4), kind.pop("layer", {})
        axes = [AxisConfig(n, **{"state": 4, "basis": "legs"} | kind) for n in (5, 6)]
        layer = S4ND(channels, axes, **({"engine": "matmul"} | more)).double()
        with torch.no_grad():
            for parameter in layer.parameters():  # away from symmetric starts
                parameter.add_(torch.randn_like(parameter) / 8)
        yield layer, torch.randn(2, channels, 5, 6).double()


def refuse(*_):
    raise AssertionError("this layer made its own kernels")


@pytest.mark.parametrize("rate", [1.0, (0.8, 1.2)])
def test_outputs_and_gradients_are_those_of_single_layers(monkeypatch, dense, rate):
    pairs = list(layers())
    parameters = [p for layer, _ in pairs for p in layer.parameters()]
    alone = [layer(signal, rate) for layer, signal in pairs]
    weights = [torch.randn_like(y) for y in alone]
    expected = torch.autograd.grad(alone, parameters, weights)
    calls = [Call(layer, signal.shape[2:], rate) for layer, signal in pairs]
    with sampled_together(calls, on_cpu=True), monkeypatch.context() as patch:
        patch.setattr(S4ND, "_make_operators", refuse)
        ours = [layer(signal, rate) for layer, signal in pairs]
    for mine, other in zip(ours, alone, strict=True):
        assert dense.relative(mine, other) < 1e-12
    found = torch.autograd.grad(ours, parameters, weights)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-10)


def small(count=3, **options):
    return [S4ND(3, [AxisConfig(n, state=4) for n in (5, 6)], **options) for _ in range(count)]


def calls_of(made, shape=(5, 6), rate=1.0):
    return [Call(layer, shape, rate) for layer in made]


def test_a_wrong_announcement_changes_nothing():
    made, signal = small(), torch.randn(2, 3, 5, 6)
    expected = [layer(signal, 1.5) for layer in made]
    for calls in (calls_of(made, (4, 6), 1.5), calls_of(made), calls_of(made, (0, 6), 1.5)):
        with sampled_together(calls, on_cpu=True):
            assert all(map(torch.equal, [layer(signal, 1.5) for layer in made], expected))


def test_nothing_stays_behind():
    made, signal = small(), torch.randn(2, 3, 5, 6)
    keys = [set(layer.state_dict()) for layer in made]
    with sampled_together(calls_of(made), on_cpu=True):
        assert all(layer.given is not None for layer in made)
    with pytest.raises(KeyboardInterrupt), sampled_together(calls_of(made), on_cpu=True):
        raise KeyboardInterrupt
    assert all(layer.given is None for layer in made)
    assert [set(layer.state_dict()) for layer in made] == keys
    twin = copy.deepcopy(made[0])  # as an average of weights starts
    assert torch.equal(twin(signal), made[0](signal))


def test_layers_that_need_no_new_kernels_are_left_out():
    frozen, evaluated, busy = small()
    frozen.spaces.requires_grad_(False)
    evaluated.eval()
    with sampled_together(calls_of([frozen, evaluated, busy]), on_cpu=True):
        assert frozen.given is None
        assert evaluated.given is not None  # gradients are recorded
    with torch.no_grad(), sampled_together(calls_of([evaluated]), on_cpu=True):
        assert evaluated.given is None


def test_not_on_a_cpu_by_itself_nor_with_the_compiled_form():
    made = small()
    with sampled_together(calls_of(made)):
        assert all(layer.given is None for layer in made)
    token = compiled._switch.set(True)
    try:
        with sampled_together(calls_of(made), on_cpu=True):
            assert all(layer.given is None for layer in made)
    finally:
        compiled._switch.reset(token)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_the_kernels_are_single_precision(dtype):
    made, signal = small(), torch.randn(2, 3, 5, 6)
    with torch.autocast("cpu", dtype=dtype):
        alone = [layer(signal) for layer in made]
        with sampled_together(calls_of(made), on_cpu=True):
            assert {x.dtype for layer in made for x in layer.given.operators} == {torch.float32}
            ours = [layer(signal) for layer in made]
    for mine, other in zip(ours, alone, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("whole", [False, True])
def test_checkpointed_layers(whole):
    """A checkpointed layer runs again in the backward pass, where nothing is handed over."""
    made, signal = small(), torch.randn(2, 3, 5, 6)
    parameters = [p for layer in made for p in layer.parameters()]

    def run(signal, *, each):
        with sampled_together(calls_of(made), on_cpu=True):
            for layer in made:
                call = (layer, signal)
                signal = checkpoint(*call, use_reentrant=False) if each else layer(signal)
        return signal.square().sum()

    expected = torch.autograd.grad(run(signal, each=False), parameters)
    loss = run(signal, each=True)
    if whole:
        loss = checkpoint(run, signal, each=False, use_reentrant=False)
    for mine, other in zip(torch.autograd.grad(loss, parameters), expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_transforms_of_torch_func(dense):
    network = torch.nn.Sequential(*small()).double()
    signal = torch.randn(2, 3, 5, 6).double()
    parameters = {name: p.detach() for name, p in network.named_parameters()}

    def loss(parameters, *, together):
        def call(signal):
            calls = calls_of(network) if together else []
            with sampled_together(calls, on_cpu=True):
                return network(signal)

        module = torch.nn.Module()
        module.network, module.forward = network, call
        named = {f"network.{name}": p for name, p in parameters.items()}
        return torch.func.functional_call(module, named, (signal,)).square().sum()

    ours, expected = (
        torch.func.grad(loss)(parameters, together=together) for together in (True, False)
    )
    for name in parameters:
        assert dense.relative(ours[name], expected[name]) < 1e-9, name
