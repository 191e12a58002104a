import subprocess
import sys

import pytest
import torch

from s4nd import AxisConfig
from s4nd.axis import AxisStateSpace
from s4nd.bases import BASES
from s4nd.start import Shape, initial_values

DIAGONAL = [name for name, basis in BASES.items() if not basis.low_rank]
LOW_RANK = [name for name, basis in BASES.items() if basis.low_rank]


def axis(basis, *, channels=4, outputs=1, **options):
    options = {"size": 24, "state": 16, "copies": 2 if basis == "hippo" else 1} | options
    return AxisStateSpace(AxisConfig(basis=basis, **options), channels, outputs)


@pytest.mark.parametrize("basis", DIAGONAL)
def test_diagonal_kernel_is_c_exp_ta_b(dense, basis):
    """Zero-order hold integrates C exp(t A) B over each sample; the matrix exponential is dense."""
    space = axis(basis, outputs=2)
    assert dense.relative(space(24), dense.kernel(space, 24)) < 1e-6
    assert dense.relative(space.double()(24), dense.kernel(space, 24)) < 1e-12


def test_zero_order_hold_samples_the_continuous_kernel(dense):
    """k[l] / dt tends to C exp(t A) B at t = l dt as the step shrinks."""
    space = axis("diag-lin", channels=1, length=8).double()
    A, B, C = dense.full(space)
    errors = []
    for rate in (1e-2, 1e-3):
        step = float(space.log_dt.detach().exp()) * rate
        sampled = space(3, rate) / step
        exact = [(C[:, 0] @ torch.matrix_exp(step * n * A[0]) @ B[0]).real for n in range(3)]
        errors.append(dense.relative(sampled[:, 0], torch.stack(exact, -1)))
    assert errors[0] < 0.5
    assert errors[1] < errors[0] / 8


@pytest.mark.parametrize("basis", DIAGONAL)
def test_bilinear_diagonal_kernel(dense, basis):
    space = axis(basis, discretisation="bilinear")
    assert dense.relative(space(24), dense.kernel(space, 24)) < 1e-5


@pytest.mark.parametrize("size", [1, 2, 15, 24, 100, 513, 600])
@pytest.mark.parametrize("basis", LOW_RANK)
def test_low_rank_kernel_equals_dense_powers(dense, basis, size):
    space = axis(basis, outputs=2, size=size)
    assert dense.relative(space(size), dense.kernel(space, size)) < 1e-6
    assert dense.relative(space.double()(size), dense.kernel(space, size)) < 1e-9


@pytest.mark.parametrize("rate", [0.5, 2.0, 1.7])
@pytest.mark.parametrize("basis", ["legs", "fourier", "hippo", "diag-inv"])
def test_kernel_at_another_rate_equals_dense_powers(dense, basis, rate):
    space, length = axis(basis), round(24 / rate)
    assert dense.relative(space(length, rate), dense.kernel(space, length, rate)) < 2e-6


@pytest.mark.parametrize("copies", [2, 4])
def test_channels_are_tiled_over_copies(dense, copies):
    for basis in ("random-linear", "diag-lin"):
        space = axis(basis, copies=copies)
        with torch.no_grad():
            space.A_imag.mul_(1 + torch.rand_like(space.A_imag))
        assert dense.relative(space(24), dense.kernel(space, 24)) < 2e-6


@pytest.mark.parametrize("low_rank", [1, 2, 3])
@pytest.mark.parametrize("copies", [1, 4])
def test_any_low_rank(dense, low_rank, copies):
    space = axis("legs", low_rank=low_rank, copies=copies)
    with torch.no_grad():
        space.P.add_(torch.randn_like(space.P) / 2)
    assert dense.relative(space(24), dense.kernel(space, 24)) < 1e-6


def test_a_longer_period_gives_the_same_kernel():
    """What is stored differs, C (I - A^24) or C (I - A^100); the kernel does not."""
    spaces = []
    for period in (24, 100):
        space = axis("legs", period=period).double()
        torch.manual_seed(1)
        for name, value in initial_values(space.config, Shape(2, 4)).items():
            space.get_parameter(name).data = value.clone()  # not rounded to float32 first
        spaces.append(space)
    torch.testing.assert_close(spaces[0](24), spaces[1](24), rtol=1e-8, atol=1e-10)


def test_real_poles_on_the_frequency_grid(dense):
    """A pole at the origin meets the zero frequency of the grid: the hardest cancellation."""
    space = axis("fourier", length=12)
    with torch.no_grad():
        space.A_real.fill_(-14.0)  # Re a = -8e-7
    assert dense.relative(space(24), dense.kernel(space, 24)) < 1e-4


def assert_machine_code_equals_torch(monkeypatch, space, compute, weight):
    found = []
    for machine_code in (True, False):
        monkeypatch.setattr(AxisStateSpace, "_has_machine_code", lambda _: machine_code)  # noqa: B023
        result = compute()
        gradients = torch.autograd.grad((result * weight).sum(), list(space.parameters()))
        found.append([result, *gradients])
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("copies", [1, 2, 6])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 700])
@pytest.mark.parametrize("basis", ["legs", "fourier"])
def test_machine_code_equals_torch(monkeypatch, basis, size, copies):
    """Kernel and every gradient."""
    space = axis(basis, channels=6, outputs=2, size=size, copies=copies).double()
    space.bandlimit = 0.4
    with torch.no_grad():
        space.P.add_(torch.randn_like(space.P) / 4)
        space.B.add_(torch.randn_like(space.B) / 4)
    length = max(round(size / 1.1) - 1, 1)
    weight = torch.randn(4, 6, length).double()
    assert_machine_code_equals_torch(monkeypatch, space, lambda: space(length, 1.1), weight)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": 72},
        {"state": 130},
        {"bidirectional": False},
        {"bidirectional": False, "size": 600},
    ],
)
def test_machine_code_takes_every_configuration(monkeypatch, changes):
    """More pole pairs than a block holds, a last block that is not full, one direction, an FFT."""
    space = axis("legs", channels=20, **changes).double()
    weight = torch.randn(1, 20, 48).double()
    assert_machine_code_equals_torch(monkeypatch, space, lambda: space.taps(24), weight)


@pytest.mark.parametrize("copies", [1, 4, 40])
def test_machine_code_does_not_depend_on_threads(copies):
    """To the last bit."""
    space, threads = axis("fourier", channels=40, copies=copies), torch.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            taps = space.taps(24)
            found.append(
                [taps, *torch.autograd.grad(taps.square().sum(), list(space.parameters()))]
            )
    finally:
        torch.set_num_threads(threads)
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch brings another OpenMP")
def test_torch_lends_its_threads():
    import numpy as np

    from s4nd.machine_code import compiled, in_parallel, inlined, take, team

    @inlined
    def work(counter, taken):
        taken[take(counter)] += 1

    @compiled
    def run(taken, team):
        counter = np.zeros(1, np.int64)
        in_parallel(team, work, (counter, taken))
        return counter[0]

    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            taken = np.zeros(4)
            assert run(taken, team()) == count
            assert list(taken) == [1] * count + [0] * (4 - count)
    finally:
        torch.set_num_threads(threads)


def test_works_without_numba():
    program = """
import sys
sys.modules["numba"] = None
import torch
from s4nd import S4ND, AxisConfig
layer = S4ND(2, [AxisConfig(6, state=4)])
layer(torch.randn(1, 2, 6)).sum().backward()
assert all(parameter.grad is not None for parameter in layer.parameters())
assert "s4nd.rank_one" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_machine_code_is_used():
    assert axis("legs")._has_machine_code()
    assert not axis("diag-lin")._has_machine_code()
    assert not axis("legs", low_rank=2)._has_machine_code()


@pytest.mark.parametrize("basis", ["legs", "fourier", "diag-inv"])
def test_gradients_by_finite_differences(basis):
    space = axis(basis, channels=2, size=6, state=4).double()
    names, values = zip(*space.named_parameters(), strict=True)

    def kernel(*tensors):
        return torch.func.functional_call(space, dict(zip(names, tensors, strict=True)), (6,))

    assert torch.autograd.gradcheck(kernel, [v.detach().clone().requires_grad_() for v in values])


@pytest.mark.parametrize("basis", ["legs", "diag-lin"])
def test_finer_sampling_converges_to_the_same_continuous_kernel(basis):
    """k at rate r, over r, at the same positions: differences shrink as r does."""
    space = axis(basis, size=64, length=60, start="deterministic").double()
    coarse, middle, fine = (space(round(64 / r), r) / r for r in (0.5, 0.25, 0.125))
    first, second = (coarse - middle[..., ::2]).abs().max(), (middle - fine[..., ::2]).abs().max()
    assert second < 0.6 * first
    assert second < 0.05 * fine.abs().max()


@pytest.mark.parametrize("basis", ["diag-lin", "diag-inv", "legs", "fourier"])
@pytest.mark.parametrize("rate", [0.5, 1.0, 2.0])
def test_bandlimit_removes_exactly_the_functions_above_the_cut(basis, rate):
    space = axis(basis)
    frequency = space.log_dt.exp() * space.A_imag.abs() / (2 * torch.pi)  # cycles per base sample
    kept = frequency < 0.3 / 2
    assert 0 < kept.sum() < kept.numel()
    space.bandlimit = 0.3
    limited = space(round(24 / rate), rate)
    space.bandlimit = None
    with torch.no_grad():
        space.C.mul_(kept[None, ..., None])
    assert torch.equal(limited, space(round(24 / rate), rate))


def test_a_bandlimit_of_zero_removes_everything():
    space = axis("diag-lin")
    space.bandlimit = 0.0
    assert space(24).abs().max() == 0
