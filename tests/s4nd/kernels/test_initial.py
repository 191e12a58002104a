import numpy as np
import pytest
import torch

from s4nd import S4ND, AxisConfig
from s4nd.axis import AxisStateSpace


@pytest.mark.parametrize("length", [20, 4, 2, 1])
def test_length_fixes_the_step(length):
    space = AxisStateSpace(AxisConfig(15, length=length), 4)
    torch.testing.assert_close(space.log_dt.exp(), torch.full((4, 1), 2.0 / length))


def test_steps_are_drawn_log_uniformly():
    space = AxisStateSpace(AxisConfig(4, state=2, dt_min=0.01, dt_max=1.0), 20000)
    position = (space.log_dt.detach() - np.log(0.01)) / np.log(100)  # uniform in [0, 1]
    assert 0 <= position.min() < 1e-3
    assert 1 - 1e-3 < position.max() <= 1
    assert abs(position.mean() - 0.5) < 0.02
    assert abs(position.var() - 1 / 12) < 0.005


@pytest.mark.parametrize("dt", ["0.1", "0.5", "1.0", "2.0"])
def test_paper_start_is_the_time_kernel_of_the_ablation(oracle, dense, dt):
    """8 channels, the first half legs, the second half fourier; both directions alike."""
    dump = np.load(oracle / "temporal_init_L15.npz")
    config = AxisConfig(15, basis="hippo", copies=8, length=2 / float(dt), start="paper")
    ours = AxisStateSpace(config, 8)(15)
    assert dense.relative(ours, dump[f"intended/dt{dt}/k"]) < 1e-3


def test_paper_start_doubles_a_constant_signal():
    config = AxisConfig(15, basis="legs", length=1, start="paper")
    kernel = S4ND(3, [config]).kernel((15,))
    expected = torch.zeros(3, 29)
    expected[:, 13:15] = 1  # lags -1 and 0
    torch.testing.assert_close(kernel, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "basis", ["legs", "fourier", "hippo", "diag-lin", "diag-real", "diag-legs"]
)
@pytest.mark.parametrize("length", [20, 4, 1])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_deterministic_start_has_a_gain_of_one(basis, length, bidirectional):
    config = AxisConfig(
        15, basis=basis, copies=4, length=length, start="deterministic", bidirectional=bidirectional
    )
    space = AxisStateSpace(config, 4)
    torch.testing.assert_close(space.taps(15).sum(-1), torch.ones(1, 4), atol=1e-5, rtol=0)


def test_deterministic_start_at_length_one_is_the_sample_itself_for_one_sided_legs():
    config = AxisConfig(15, basis="legs", length=1, start="deterministic", bidirectional=False)
    kernel = AxisStateSpace(config, 2)(15)
    torch.testing.assert_close(kernel[..., 0], torch.ones(1, 2), atol=1e-5, rtol=0)
    assert kernel[..., 1:].abs().max() < 1e-5


@pytest.mark.parametrize("basis", ["fourier", "diag-lin"])
@pytest.mark.parametrize("length", [None, 20, 1])
def test_identity_start_is_a_delta_and_every_parameter_can_learn(basis, length):
    torch.manual_seed(0)
    layer = S4ND(3, [AxisConfig(9, basis=basis, length=length, start="identity")])
    with torch.no_grad():
        layer.D.zero_()
        signal = torch.randn(2, 3, 9)
        layer.engine = "matmul"
        assert torch.equal(layer(signal), signal)
        for rate in (0.5, 2.0):
            assert torch.equal(layer(signal, rate), signal)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        (layer(signal) - signal.roll(1, -1)).square().sum().backward()
        optimizer.step()
    # P of fourier equals B at the start; everything moves once C has.
    for name, parameter in layer.named_parameters():
        assert not torch.equal(parameter, before[name]), name


def test_random_start_draws_a_complex_normal_c():
    space = AxisStateSpace(AxisConfig(8, basis="diag-lin"), 400)
    parts = space.C.detach().flatten(0, 2)
    assert abs(float(parts.var(0).mean()) - 0.5) < 0.02


def test_low_rank_start_keeps_the_kernel_of_the_drawn_c(dense):
    """C is stored folded; unfolding it by dense algebra gives numbers of a complex normal again."""
    space = AxisStateSpace(AxisConfig(32, basis="fourier", state=16), 200)
    _, _, C = dense.discrete(space)
    drawn = torch.view_as_real(C[..., :8].detach().contiguous())
    assert abs(float(drawn.var()) - 0.5) < 0.05


def test_states_that_do_not_decay_start_with_the_slowest_decay():
    """Re a of Fourier is 0, which a logarithm cannot hold."""
    space = AxisStateSpace(AxisConfig(8, state=8, basis="fourier"), 2)
    torch.testing.assert_close(space.A_real.exp(), torch.full_like(space.A_real, 1e-4))
