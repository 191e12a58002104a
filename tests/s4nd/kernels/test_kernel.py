import pytest
import torch

from s4nd import AxisConfig
from s4nd.axis import AxisStateSpace
from s4nd.kernels.bases import BASES
from s4nd.kernels.initial import Shape, initial_values

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


@pytest.mark.parametrize("size", [1, 2, 15, 24, 513])
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
