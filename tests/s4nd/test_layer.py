import copy
import dataclasses
import json
import pickle

import pytest
import torch

from s4nd import S4ND, AxisConfig, state_space_parameters
from s4nd.kernels.bases import BASES


def layer_of(*sizes, channels=3, **options):
    axis = {name: options.pop(name) for name in list(options) if name in AxisConfig.__annotations__}
    return S4ND(channels, [AxisConfig(n, **({"state": 8} | axis)) for n in sizes], **options)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("basis", ["legs", "diag-inv"])
def test_kernel_is_c_times_the_product_of_basis_functions(dense, rank, basis):
    """K = <C, (exp(t1 A1) B1) x (exp(t2 A2) B2)> with C = sum over rank of C1_i x C2_i."""
    layer = layer_of(5, 6, rank=rank, basis=basis, bidirectional=False).double()
    functions, coefficients = [], []
    for size, space in zip((5, 6), layer.spaces, strict=True):
        A, x, C = dense.discrete(space)
        samples = []
        for _ in range(size):
            samples.append(x)
            x = (A @ x[..., None])[..., 0]
        functions.append(torch.stack(samples, -1))  # (H, N, size)
        coefficients.append(C)  # (rank, H, N)
    full = torch.einsum("rhm,rhn->hmn", *coefficients)
    # Sums over conjugate pairs are real in each axis, so the full C must act on products of reals.
    factors = [
        torch.einsum("rhn,hnl->rhl", c, f) for c, f in zip(coefficients, functions, strict=True)
    ]
    assert max(f.imag.abs().max() for f in factors) < 1e-9
    expected = torch.einsum("hmn,hmi,hnj->hij", full, *functions).real
    assert dense.relative(layer.kernel((5, 6)), expected) < 1e-9


def test_kernel_has_lag_zero_in_the_middle():
    layer = layer_of(4, 5)
    impulse = torch.zeros(1, 3, 7, 9)
    impulse[..., 3, 4] = 1
    with torch.no_grad():
        layer.D.zero_()
        wide = S4ND(3, [AxisConfig(7, state=8), AxisConfig(9, state=8)])
        wide.D.zero_()
        response = wide(impulse)
        kernel = wide.kernel((7, 9))
    assert kernel.shape == (3, 13, 17)
    torch.testing.assert_close(response[0], kernel[:, 3:10, 4:13], atol=1e-6, rtol=1e-5)
    assert layer.kernel((4, 5)).shape == (3, 7, 9)
    assert layer_of(4, 5, out_channels=2).kernel((4, 5)).shape == (2, 3, 7, 9)
    assert layer_of(4, 5, multiplier=2).kernel((4, 5)).shape == (6, 7, 9)
    assert layer_of(4, 5, bidirectional=False).kernel((4, 5)).shape == (3, 4, 5)


@pytest.mark.parametrize("basis", list(BASES))
def test_every_parameter_gets_a_finite_gradient(basis):
    layer = layer_of(5, 4, channels=4, basis=basis, copies=2)
    layer(torch.randn(2, 4, 5, 4)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("basis", ["fourier", "diag-lin"])
def test_finer_sampling_at_half_the_rate_approaches_the_coarse_output(basis):
    """A smooth signal on a twice finer grid, at rate 1/2: the same output at shared points."""
    differences = []
    for size in (32, 64):
        torch.manual_seed(0)
        layer = layer_of(size, length=size / 2, start="deterministic", basis=basis).double()
        position = torch.arange(2 * size, dtype=torch.float64) / (2 * size)
        smooth = torch.exp(-((position - 0.5) ** 2) / 0.02).expand(1, 3, -1)
        with torch.no_grad():
            fine, coarse = layer(smooth, 0.5), layer(smooth[..., ::2], 1.0)
        differences.append(float((fine[..., ::2] - coarse).abs().max() / coarse.abs().max()))
    assert differences[0] < 0.1
    assert differences[1] < 0.7 * differences[0]


def test_rate_may_differ_by_axis(dense):
    """Each axis at its own rate: the kernel is the outer product of the kernels of the axes."""
    layer = layer_of(16, 12, bidirectional=False)
    first, second = (
        space(n, r)[0] for space, n, r in zip(layer.spaces, (8, 12), (2, 1), strict=True)
    )
    expected = first[:, :, None] * second[:, None, :]
    assert dense.relative(layer.kernel((8, 12), (2, 1)), expected) < 1e-6
    assert dense.relative(layer.kernel((8, 12), 1.0), expected) > 0.1


def test_calls_at_other_rates_and_sizes_change_nothing():
    layer = layer_of(7, 9, basis="legs").eval()
    signal = torch.randn(2, 3, 7, 9)
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    first = layer(signal)
    for rate, shape in ((2.0, (4, 5)), (0.5, (14, 18)), (1.0, (30, 40)), (3.3, (1, 1))):
        layer(torch.randn(1, 3, *shape), rate)
    assert torch.equal(layer(signal), first)
    for name, value in layer.state_dict().items():
        assert torch.equal(value, state[name]), name


def test_bandlimit_can_be_switched_after_construction():
    layer = layer_of(9, 9, bandlimit=0.2, basis="diag-lin").eval()
    assert layer.bandlimit == (0.2, 0.2)
    signal = torch.randn(1, 3, 9, 9)
    with torch.no_grad():
        limited = layer(signal)
        layer.bandlimit = None
        free = layer(signal)
        layer.bandlimit = [0.2, 0.2]
        assert torch.equal(layer(signal), limited)
    assert not torch.equal(free, limited)
    with pytest.raises(ValueError, match=r"at least 0, got -0\.1"):
        layer.bandlimit = -0.1
    with pytest.raises(ValueError, match="one bandlimit per axis"):
        layer.bandlimit = [0.1]


def test_state_space_parameters_are_step_a_b_and_p():
    network = torch.nn.Sequential(
        layer_of(4, 4), torch.nn.Linear(3, 3), layer_of(4, basis="diag-lin")
    )
    found = {id(p) for p in state_space_parameters(network)}
    names = [n.rsplit(".", 1)[-1] for n, p in network.named_parameters() if id(p) in found]
    assert sorted(names) == sorted(
        2 * ["log_dt", "A_real", "A_imag", "B", "P"] + ["log_dt", "A_real", "A_imag", "B"]
    )


def test_axis_configuration_is_stored_as_json():
    axis = AxisConfig(15, length=4, basis="hippo", copies=6, start="paper", bandlimit=0.3)
    assert AxisConfig(**json.loads(json.dumps(dataclasses.asdict(axis)))) == axis


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"size": 0}, ValueError, "size must be 1 or more, got 0"),
        ({"size": 2.5}, TypeError, "size must be an integer, got 2.5"),
        ({"state": 7}, ValueError, "state must be even .*, got 7"),
        ({"state": 0}, ValueError, "state must be 2 or more, got 0"),
        ({"state": 1}, ValueError, "state must be 2 or more, got 1"),
        ({"basis": "legz"}, ValueError, "unknown basis 'legz'; choose one of legs, fourier"),
        ({"bandlimit": -0.5}, ValueError, "bandlimit must be None or at least 0, got -0.5"),
        ({"length": 0}, ValueError, "length must be above 0 samples, got 0"),
        ({"dt_min": 1.0, "dt_max": 0.1}, ValueError, "dt_min <= dt_max, got 1.0 and 0.1"),
        ({"start": "warm"}, ValueError, "unknown start 'warm'"),
        ({"discretisation": "zoh"}, ValueError, "low-rank part"),
        ({"discretisation": "euler"}, ValueError, "zoh or bilinear, got 'euler'"),
        ({"copies": 0}, ValueError, "copies must be 1 or more, got 0"),
        ({"low_rank": -1}, ValueError, "low_rank must be 0 or more, got -1"),
        ({"period": 3}, ValueError, r"period must be at least size \(8\), got 3"),
    ],
)
def test_wrong_axis_options_are_named(options, error, message):
    with pytest.raises(error, match=message):
        AxisConfig(**({"size": 8} | options))


@pytest.mark.parametrize(
    ("signal", "rate", "error", "message"),
    [
        (torch.zeros(2, 3, 8), 1.0, ValueError, r"2 axes\), got a signal of shape \(2, 3, 8\)"),
        (
            torch.zeros(2, 4, 8, 8),
            1.0,
            ValueError,
            r"3 channels, got 4 in a signal of shape \(2, 4",
        ),
        (torch.zeros(2, 3, 8, 8).int(), 1.0, TypeError, "torch.int32"),
        (torch.zeros(2, 3, 8, 8) + 0j, 1.0, TypeError, "torch.complex64"),
        (torch.zeros(2, 3, 8, 0), 1.0, ValueError, "empty axis"),
        (torch.zeros(2, 3, 8, 8), 0.0, ValueError, "rate must be above 0, got 0.0"),
        (torch.zeros(2, 3, 8, 8), -1, ValueError, "rate must be above 0, got -1"),
        (torch.zeros(2, 3, 8, 8), float("nan"), ValueError, "rate must be above 0, got nan"),
        (torch.zeros(2, 3, 8, 8), (1.0, 2.0, 1.0), ValueError, r"one per axis \(2\), got"),
        (
            torch.zeros(2, 3, 8, 8),
            None,
            TypeError,
            "rate must be a number or one per axis, got None",
        ),
        ([[1.0]], 1.0, TypeError, "expects a tensor, got list"),
    ],
)
def test_wrong_signals_and_rates_are_named(signal, rate, error, message):
    with pytest.raises(error, match=message):
        layer_of(8, 8)(signal, rate)


def test_wrong_constructions_are_named():
    axis = AxisConfig(8)
    with pytest.raises(ValueError, match=r"copies \(2\) must divide channels \(3\)"):
        layer_of(8, copies=2)
    with pytest.raises(ValueError, match="rank must be 1 or more, got 0"):
        S4ND(3, [axis], rank=0)
    with pytest.raises(ValueError, match="channels must be 1 or more, got 0"):
        S4ND(0, [axis])
    with pytest.raises(ValueError, match="unknown engine 'fast'; choose one of auto, matmul, fft"):
        S4ND(3, [axis], engine="fast")
    with pytest.raises(TypeError, match="sequence of AxisConfig"):
        S4ND(3, [8, 8])
    with pytest.raises(TypeError, match="sequence of AxisConfig"):
        S4ND(3, [])
    with pytest.raises(ValueError, match="out_channels must be None, or 1 or more"):
        S4ND(3, [axis], out_channels=0)
    with pytest.raises(ValueError, match="expects 1 axes, got shape"):
        S4ND(3, [axis]).kernel((3, 4))


def test_empty_batch_gives_an_empty_result():
    for engine in ("matmul", "fft"):
        assert layer_of(4, 5, engine=engine)(torch.zeros(0, 3, 4, 5)).shape == (0, 3, 4, 5)


@pytest.mark.parametrize("options", [{}, {"out_channels": 2, "rank": 2}])
def test_copies_pickles_and_state_dicts_give_the_same_output(options):
    layer = layer_of(5, 6, **options).eval()
    signal = torch.randn(1, 3, 5, 6)
    with torch.no_grad():
        expected = layer(signal)  # fills the cache, which must not travel
        other = layer_of(5, 6, **options).eval()
        other(signal)
        other.load_state_dict(layer.state_dict())
        twins = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other]
        for twin in twins:
            assert torch.equal(twin(signal), expected)
        twins[0].D.add_(1)
        assert torch.equal(layer(signal), expected)
    assert not copy.deepcopy(layer)._cache


@pytest.mark.parametrize("engine", ["matmul", "fft"])
@pytest.mark.parametrize("basis", ["legs", "diag-lin"])
def test_meta_device(engine, basis):
    """Shapes and gradients without numbers; then the layer gets memory and numbers."""
    with torch.device("meta"):
        layer = layer_of(5, 6, basis=basis, engine=engine)
        y = layer(torch.empty(2, 3, 5, 6))
    assert y.is_meta
    assert y.shape == (2, 3, 5, 6)
    y.sum().backward()
    assert all(p.is_meta and p.grad.shape == p.shape for p in layer.parameters())
    real = layer.to_empty(device="cpu")
    given = layer_of(5, 6, basis=basis, engine=engine)
    real.load_state_dict(given.state_dict())
    signal = torch.randn(1, 3, 5, 6)
    assert torch.equal(real(signal), given(signal))
