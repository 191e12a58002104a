"""The compiled form: equal to plain torch, visible to tracers, optional."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import s4nd
from s4nd import S4ND, AxisConfig, compiled
from s4nd.axis import AxisStateSpace
from s4nd.compiled import channels, jit, operators, state_spaces


def axis(basis, *, channels=4, outputs=1, **options):
    return AxisStateSpace(
        AxisConfig(basis=basis, **({"size": 24, "state": 16} | options)), channels, outputs
    )


def in_both_forms(compute, inputs):
    """Results and gradients of the compiled form, and those of plain torch."""
    found, weight = [], None
    for form in ("compiled", "plain"):
        if form == "plain":
            with compiled.disabled():
                result = compute()
        else:
            result = compute()
        weight = torch.randn_like(result) if weight is None else weight
        found.append([result, *torch.autograd.grad(result, inputs, weight)])
    return found


@pytest.mark.parametrize(
    "options",
    [
        *({"size": size, "copies": 2} for size in (1, 2, 7, 8, 700)),
        *({"basis": "fourier", "size": size, "copies": 6} for size in (7, 8)),
        {"bandlimit": 0.4},
        {"state": 72},
        {"state": 130},
        {"bidirectional": False},
        {"bidirectional": False, "size": 600},
    ],
)
def test_taps_equal_plain_torch(options):
    """More pole pairs than a block holds, a last block that is not full, one direction, an FFT."""
    options = {"basis": "legs", "size": 24} | options
    space = axis(channels=6, outputs=2, **options).double()
    with torch.no_grad():
        space.P.add_(torch.randn_like(space.P) / 4)
        space.B.add_(torch.randn_like(space.B) / 4)
    length = max(round(options["size"] / 1.1) - 1, 1)
    ours, plain = in_both_forms(lambda: space.taps(length, 1.1), list(space.parameters()))
    for mine, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("basis", ["legs", "fourier", "hippo"])
def test_both_forms_solve_the_same_equations(basis, dense):
    """Kernels to rounding; gradients where poles lie next to the imaginary axis lose two digits."""
    space = axis(basis, size=56, state=64, channels=8, copies=8 if basis == "hippo" else 1).double()
    ours, plain = in_both_forms(lambda: space.taps(56), list(space.parameters()))
    for index, (mine, other) in enumerate(zip(ours, plain, strict=True)):
        assert dense.relative(mine, other) < (1e-11 if index else 1e-13)


@pytest.mark.parametrize("shape", [(6, 16, 61, 67), (3, 20, 5, 7), (2, 70, 3, 4, 5), (0, 3, 4, 5)])
@pytest.mark.parametrize("last", [False, True])
def test_products_equal_plain_torch(shape, last):
    """With other channels than the blocks in which they are moved; the layout stays."""
    axes = [AxisConfig(n, state=4, basis="legs") for n in shape[2:]]
    layer = S4ND(shape[1], axes, engine="matmul").double()
    signal = torch.randn(shape).double()
    if last:
        signal = signal.movedim(1, -1).contiguous().movedim(-1, 1)
    signal.requires_grad_()
    ours, plain = in_both_forms(lambda: layer(signal), [signal, *layer.parameters()])
    for mine, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)
    if last and signal.numel():
        assert ours[0].stride() == ours[1].stride() == signal.stride()


@pytest.mark.parametrize(
    "shape", [(2, 8, 16, 32), (3, 5, 33, 130), (1, 1, 1, 1), (20, 3, 6, 300), (0, 4, 2, 8)]
)
@pytest.mark.parametrize("asked", ["both", "matrix", "signal"])
def test_products_along_steps_equal_plain_torch(shape, asked):
    """Rows of several places, blocks and shares that are not full, sums of any number of terms."""
    signal = torch.randn(shape).double()
    matrix = torch.randn(shape[3], shape[1], shape[1]).double()
    given = {"matrix": matrix, "signal": signal}
    inputs = [x.requires_grad_() for name, x in given.items() if asked in (name, "both")]
    found = compiled.step_product(matrix, signal)
    expected = torch.einsum("cts,nspc->ntpc", matrix, signal)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(found)
    ours, plain = (torch.autograd.grad(y, inputs, weight) for y in (found, expected))
    for mine, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def operator_cases():
    space = axis("legs", channels=4, size=6, state=4)
    parameters = (space.log_dt, space.A_real, space.A_imag, space.B, space.P, space.C)
    parameters = [p.detach().requires_grad_() for p in parameters]
    yield operators._taps, (parameters, 1.0, 6, 5, 2)
    yield operators._toeplitz, (torch.randn(1, 3, 8, requires_grad=True), 6)
    matrices = [torch.randn(4, n, n, requires_grad=True) for n in (3, 5, 6)]
    for last in (False, True):
        signal = torch.randn(2, 4, 3, 5, 6)
        if last:
            signal = signal.movedim(1, -1).contiguous().movedim(-1, 1)
        yield operators._product, (signal.requires_grad_(), torch.randn(4), matrices)
    matrix = torch.randn(4, 3, 3, requires_grad=True)
    yield operators._step_product, (matrix, torch.randn(2, 3, 5, 4, requires_grad=True))


def test_operators_are_registered_as_torch_expects():
    """Schema, autograd, fake results and traced gradients, by torch's own check."""
    for operator, arguments in operator_cases():
        torch.library.opcheck(operator, arguments)


def layer_and_signals():
    layer = S4ND(4, [AxisConfig(n, state=8) for n in (6, 5)], engine="matmul")
    signals = torch.randn(2, 3, 6, 5, 4).movedim(-1, 2)  # channels last
    return layer, signals[0].requires_grad_(), signals[1].requires_grad_()


@pytest.mark.usefixtures("form")
def test_make_fx_records_forward_and_backward(dense):
    layer, example, other = layer_and_signals()

    def gradients(signal):
        y = layer(signal)
        return y, *torch.autograd.grad(y.square().sum(), [signal, *layer.parameters()])

    for ours, theirs in zip(make_fx(gradients)(example)(other), gradients(other), strict=True):
        assert dense.relative(ours, theirs) < 1e-5
    layer.eval()
    with torch.no_grad():
        layer(example)  # a kept kernel must not become a constant of the graph
        graph = make_fx(layer)(example)
        layer.spaces[0].C.mul_(2)
        assert dense.relative(graph(other), layer(other)) < 1e-5


@pytest.mark.usefixtures("form")
@pytest.mark.filterwarnings("ignore")
def test_jit_trace(dense):
    layer, example, other = layer_and_signals()
    traced = torch.jit.trace(layer, example)
    assert dense.relative(traced(other), layer(other)) < 1e-5


def test_without_a_cache_folder():
    """numba finds none for code that lies in no file."""
    names = {}
    exec(compile("def double(x):\n    return 2 * x", "<nowhere>", "exec"), names)
    jit._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
        double = jit.compiled(names["double"])
    assert double(21) == 42


@pytest.fixture
def threads():
    """`torch.set_num_threads`, undone afterwards."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_with_another_openmp(monkeypatch, tmp_path, threads, dense):
    layer, signal, _ = layer_and_signals()
    expected = layer(signal).detach()
    threads(2)
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "__init__.py"))  # no lib folder beside it
    jit._start_of_torch.cache_clear()
    jit._warn_once.cache_clear()
    try:
        with pytest.warns(UserWarning, match="no GNU OpenMP") as caught:
            assert dense.relative(layer(signal), expected) < 1e-5
        assert len(caught) == 1
    finally:
        jit._start_of_torch.cache_clear()


def run_in_team(work):
    @jit.compiled
    def run(taken, team):
        counter = np.zeros(1, np.int64)
        jit.in_parallel(team, work, (counter, taken))
        return counter[0]

    return run


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch brings another OpenMP")
def test_loops_run_in_the_threads_of_torch(threads):
    @jit.inlined
    def work(counter, taken):
        taken[jit.take(counter)] += 1

    run = run_in_team(work)
    for count in (1, 3):
        threads(count)
        taken = np.zeros(4)
        assert run(taken, jit.team()) == count
        assert list(taken) == [1] * count + [0] * (4 - count)


def test_an_error_in_a_thread_reaches_the_caller(threads):
    @jit.inlined
    def work(counter, taken):
        if jit.take(counter) == 0:
            raise ValueError
        taken[0] += 1

    run = run_in_team(work)
    for count in (1, 3):
        threads(count)
        with pytest.raises(RuntimeError, match="failed in a thread"):
            run(np.zeros(1), jit.team())


def test_products_along_steps_do_not_depend_on_the_number_of_threads(threads):
    inputs = torch.randn(40, 6, 6, requires_grad=True), torch.randn(9, 6, 20, 40)
    found = []
    for count in (1, 2, 5):
        threads(count)
        product = compiled.step_product(*inputs)
        found.append((product, *torch.autograd.grad(product.square().sum(), inputs[:1])))
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


@pytest.mark.parametrize("copies", [1, 4, 40])
def test_loops_do_not_depend_on_the_number_of_threads(threads, copies):
    """To the last bit: the work is divided in the same way for any number of threads."""
    space = axis("fourier", channels=40, copies=copies)
    log_dt, *shared, c = (
        p.detach().numpy()
        for p in (space.log_dt, space.A_real, space.A_imag, space.B, space.P, space.C)
    )
    found = state_spaces.prepare(*shared, 24)[0]
    waves = np.random.randn(3, 12)
    of_spectrum, results = np.random.randn(1, 40, 2, 25), []
    for count in (1, 2, 3):
        threads(count)
        spectrum, sums = np.empty((1, 40, 2, 25)), np.empty((40, 12, 3, 4), complex)
        channels.forward(log_dt, c, 1.0, found, waves, spectrum, sums, jit.team())
        gradients = channels.backward(log_dt, c, 1.0, found, waves, sums, of_spectrum, jit.team())
        results.append([spectrum, sums, *gradients])
    for others in results[1:]:
        assert all(map(np.array_equal, results[0], others))


def test_the_layer_uses_the_compiled_package_through_one_interface():
    package = Path(s4nd.__file__).parent
    for path in set(package.rglob("*.py")) - set(package.glob("compiled/*")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("s4nd.compiled"), path
            elif isinstance(node, ast.Import):
                assert not any(name.name.startswith("s4nd.compiled") for name in node.names), path
