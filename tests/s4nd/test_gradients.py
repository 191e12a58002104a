"""Output and every gradient, in both forms and both engines, against a direct float64 formula."""

import pytest
import torch

from s4nd import S4ND, AxisConfig

CASES = {
    "1d": {"sizes": (7,), "basis": "legs"},
    "2d": {"sizes": (4, 5), "basis": "legs"},
    "2d fourier": {"sizes": (4, 5), "basis": "fourier", "copies": 2},
    "3d one-sided": {"sizes": (3, 2, 4), "basis": "legs", "bidirectional": False},
    "4d": {"sizes": (2, 3, 2, 3), "basis": "legs"},
    "diagonal": {"sizes": (4, 5), "basis": "diag-inv"},
    "bilinear": {"sizes": (4, 5), "basis": "diag-lin", "discretisation": "bilinear"},
    "two columns of P": {"sizes": (4, 3), "basis": "legs", "low_rank": 2},
    "rank": {"sizes": (4, 5), "basis": "legs", "layer": {"rank": 2}},
    "multiplier": {"sizes": (4, 5), "basis": "legs", "layer": {"multiplier": 2}},
    "dense": {"sizes": (4, 5), "basis": "legs", "layer": {"out_channels": 3, "rank": 2}},
    "identity": {"sizes": (4, 5), "basis": "legs", "start": "identity"},
    "rate": {"sizes": (4, 5), "basis": "legs", "rate": 1.5, "signal": (3, 3)},
    "short kernel": {"sizes": (2, 3), "basis": "legs", "signal": (4, 5)},
    "channels last": {"sizes": (3, 4, 5), "basis": "legs", "last": True},
}


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("case", CASES)
def test_output_and_gradients(dense, case, engine):
    options = dict(CASES[case])
    sizes, rate = options.pop("sizes"), options.pop("rate", 1.0)
    shape, last = options.pop("signal", sizes), options.pop("last", False)
    layer_options = options.pop("layer", {})
    axes = [AxisConfig(n, state=4, **options) for n in sizes]
    layer = S4ND(2, axes, engine=engine, **layer_options).double()
    with torch.no_grad():
        for parameter in layer.parameters():  # away from symmetric starts
            parameter.add_(torch.randn_like(parameter) / 8)
    signal = torch.randn(3, 2, *shape).double()
    if last:
        signal = signal.movedim(1, -1).contiguous().movedim(-1, 1)
    signal.requires_grad_()
    names = ["signal", *dict(layer.named_parameters())]
    inputs = [signal, *layer.parameters()]
    y, expected = layer(signal, rate), dense.output(layer, signal, rate)
    assert dense.relative(y, expected) < 1e-9
    weight = torch.randn_like(y)
    ours = torch.autograd.grad(y, inputs, weight)
    theirs = torch.autograd.grad(expected, inputs, weight)
    for name, mine, other in zip(names, ours, theirs, strict=True):
        assert other.abs().max() > 0, name
        assert dense.relative(mine, other) < 1e-7, name


def double_layer(engine, basis="legs", sizes=(3, 2)):
    axes = [AxisConfig(n, state=2, basis=basis) for n in sizes]
    return S4ND(2, axes, engine=engine).double()


@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("basis", ["legs", "diag-lin"])
def test_second_derivatives_in_plain_torch(plain, engine, basis):
    layer = double_layer(engine, basis)
    names, values = zip(*layer.named_parameters(), strict=True)
    signal = torch.randn(1, 2, 3, 2).double()

    def output(signal, *tensors):
        return torch.func.functional_call(layer, dict(zip(names, tensors, strict=True)), (signal,))

    inputs = [x.detach().clone().requires_grad_() for x in (signal, *values)]
    assert torch.autograd.gradcheck(output, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(output, inputs, fast_mode=True, atol=1e-4)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("sizes", [(3,), (3, 2)])
def test_first_derivatives_pass_gradcheck(engine, sizes):
    """Also for outputs that nothing depends on, whose gradient is undefined."""
    layer = double_layer(engine, sizes=sizes)
    signal = torch.randn(1, 2, *sizes).double().requires_grad_()
    assert torch.autograd.gradcheck(layer, [signal], fast_mode=True)


@pytest.mark.parametrize("sizes", [(3,), (3, 2)])
def test_second_derivatives_of_the_compiled_form_are_refused(sizes):
    layer = double_layer("matmul", sizes=sizes)
    signal = torch.randn(1, 2, *sizes).double().requires_grad_()
    inputs = [signal, *layer.parameters()]
    first = torch.autograd.grad(layer(signal).pow(3).sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match=r"with s4nd\.compiled\.disabled\(\):"):
        torch.autograd.grad(sum(g.square().sum() for g in first), inputs)


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("engine", ["matmul", "fft"])
def test_transforms_of_torch_func(dense, engine):
    """grad, vmap over samples and over parameters, per-sample gradients, jvp."""
    layer = double_layer(engine)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    signals = torch.randn(3, 1, 2, 3, 2).double()

    def output(parameters, signal):
        return torch.func.functional_call(layer, parameters, (signal,))

    def loss(parameters, signal):
        return output(parameters, signal).pow(3).sum()

    each = [torch.autograd.grad(layer(s).pow(3).sum(), list(layer.parameters())) for s in signals]
    ours = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, signals)
    for index, name in enumerate(parameters):
        expected = torch.stack([gradients[index] for gradients in each])
        assert dense.relative(ours[name], expected) < 1e-9, name
    whole = torch.func.vmap(output, (None, 0))(parameters, signals)
    assert dense.relative(whole, torch.stack([layer(s) for s in signals])) < 1e-12
    stacked = {name: torch.stack((p, 2 * p)) for name, p in parameters.items()}
    two = torch.func.vmap(output, (0, None))(stacked, signals[0])
    doubled = output({name: 2 * p for name, p in parameters.items()}, signals[0])
    assert dense.relative(two[1], doubled) < 1e-12
    tangents = {name: torch.randn_like(p) for name, p in parameters.items()}
    _, jvp = torch.func.jvp(
        lambda p: output(p, signals[0]).pow(3).sum(), (parameters,), (tangents,)
    )
    expected = sum((g * t).sum() for g, t in zip(each[0], tangents.values(), strict=True))
    assert dense.relative(jvp, expected) < 1e-9
