"""Half precision, compilation and export."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from s4nd import S4ND, AxisConfig

OPTIONS = [
    {"basis": "fourier", "engine": "matmul"},
    {"basis": "fourier", "engine": "fft"},
    {"basis": "diag-lin", "engine": "matmul"},
]


def layer_of(basis, engine, **options):
    return S4ND(4, [AxisConfig(n, state=8, basis=basis) for n in (6, 5)], engine=engine, **options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_autocast_keeps_kernels_in_single_precision(dense, options, dtype, tolerance):
    layer, signal = layer_of(**options), torch.randn(2, 4, 6, 5, requires_grad=True)
    expected = layer(signal)
    with torch.autocast("cpu", dtype=dtype):
        assert all(t.dtype == torch.float32 for t in layer.taps((6, 5)))
        assert all(torch.equal(a, b) for a, b in zip(layer.taps((6, 5)), taps(layer), strict=True))
        y = layer(signal)
    assert y.dtype == dtype
    assert dense.relative(y, expected.detach()) < tolerance
    y.float().square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.dtype == torch.float32
        assert torch.isfinite(parameter.grad).all(), name


def taps(layer):
    with torch.autocast("cpu", enabled=False):
        return layer.taps((6, 5))


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_large_activations_do_not_overflow(dense, engine, dtype, tolerance):
    """The largest float16 is 65504; a kernel that averages keeps signals below it at every step."""
    axes = [AxisConfig(n, state=8, basis="legs", start="deterministic") for n in (12, 10)]
    layer, signal = S4ND(4, axes, engine=engine), 3e4 * torch.rand(2, 4, 12, 10)
    with torch.no_grad():
        layer.D.fill_(0.5)
        before = {name: value.clone() for name, value in layer.state_dict().items()}
        expected = layer(signal)
        assert expected.max() > 2e4
        with torch.autocast("cpu", dtype=dtype):
            y = layer(signal)
    assert torch.isfinite(y).all()
    assert dense.relative(y, expected) < tolerance
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_cast_to_half_precision_runs(dense, options, dtype):
    layer = layer_of(**options)
    signal = torch.randn(2, 4, 6, 5)
    with torch.no_grad():
        expected = layer(signal)
        y = layer.to(dtype)(signal.to(dtype))
    assert y.dtype == dtype
    assert dense.relative(y, expected) < 5e-2


def test_half_precision_in_eval_uses_the_cache(dense):
    layer, signal = layer_of("fourier", "matmul").eval(), torch.randn(1, 4, 6, 5)
    with torch.no_grad():
        expected = layer(signal)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = layer(signal)
        assert torch.equal(layer(signal), expected)
    assert dense.relative(half, expected) < 2e-2


def assert_gradients_agree(dense, layer, compiled, signal):
    inputs = [signal, *layer.parameters()]
    ours = torch.autograd.grad(compiled(signal).square().sum(), inputs)
    plain = torch.autograd.grad(layer(signal).square().sum(), inputs)
    for mine, theirs in zip(ours, plain, strict=True):
        assert dense.relative(mine, theirs) < 1e-5


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize(
    "options",
    [
        OPTIONS[0],
        pytest.param(OPTIONS[1], marks=pytest.mark.slow),
        pytest.param(OPTIONS[2], marks=pytest.mark.slow),
        pytest.param({"basis": "legs", "engine": "matmul", "rank": 2}, marks=pytest.mark.slow),
    ],
)
def test_compiles_without_a_graph_break(dense, options):
    """`aot_eager` traces forward and backward completely, leaving out only code generation."""
    torch._dynamo.reset()
    layer, signal = layer_of(**options), torch.randn(2, 4, 6, 5, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_gradients_agree(dense, layer, compiled, signal)
    layer.eval()
    with torch.no_grad():
        expected = layer(signal)
        assert dense.relative(compiled(signal), expected) < 1e-5
        layer.D.add_(1)
        assert dense.relative(compiled(signal), expected + signal) < 1e-5


@pytest.mark.usefixtures("form")
def test_one_compiled_layer_takes_several_sizes(dense):
    torch._dynamo.reset()
    layer = layer_of("legs", "auto")
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for size in (4, 5, 6):
        signal = torch.randn(2, 4, size, 5)
        assert dense.relative(compiled(signal), layer(signal)) < 1e-5


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("form")
def test_compiles_to_code_in_training_and_eval(dense):
    """Plain torch too: it has no complex numbers, for which inductor generates no code."""
    torch._dynamo.reset()
    layer, signal = layer_of("fourier", "matmul"), torch.randn(2, 4, 6, 5, requires_grad=True)
    compiled = torch.compile(layer, fullgraph=True)
    assert_gradients_agree(dense, layer, compiled, signal)
    layer.eval()
    with torch.no_grad():
        assert dense.relative(compiled(signal), layer(signal)) < 1e-5


@pytest.mark.parametrize("basis", ["legs", "fourier", "diag-lin"])
def test_no_complex_numbers_and_no_waiting_for_a_device(plain, basis):
    """Of the products, in forward and backward passes, with one column of P."""
    layer = layer_of(basis, "matmul").to("meta")
    with NoComplexNumbers():
        layer(torch.empty(2, 4, 6, 5, device="meta")).sum().backward()


class NoComplexNumbers(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert "linalg" not in str(function)  # it checks for errors on the host
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else [result]:
            assert not (isinstance(value, torch.Tensor) and value.is_complex()), function
        return result


@pytest.mark.parametrize("options", OPTIONS)
def test_exports_with_any_batch_size(dense, options):
    layer = layer_of(**options).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    example = (torch.randn(2, 4, 6, 5),)
    program = torch.export.export(layer, example, dynamic_shapes=({0: batch},))
    signal = torch.randn(7, 4, 6, 5)
    assert not any("s4nd" in str(node.target) for node in program.graph.nodes)  # torch suffices
    assert not len(layer._cache)  # what was traced is not kept
    with torch.no_grad():
        assert dense.relative(program.module()(signal), layer(signal)) < 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_generation_itself_converts_to_onnx(plain, dense, tmp_path):
    """In training mode, where kernels are part of the graph and not constants."""
    runtime = pytest.importorskip("onnxruntime")
    layer, signal = layer_of("fourier", "matmul"), torch.randn(2, 4, 6, 5)
    torch.onnx.export(layer, (signal,), dynamo=True, verbose=False).save(tmp_path / "layer.onnx")
    session = runtime.InferenceSession(tmp_path / "layer.onnx")
    (y,) = session.run(None, {session.get_inputs()[0].name: signal.numpy()})
    assert dense.relative(y, layer(signal)) < 1e-5
