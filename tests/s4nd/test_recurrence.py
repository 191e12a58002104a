"""A one-sided axis gives the same numbers step by step as by its kernel."""

import pytest
import torch

from s4nd.axis import AxisConfig, AxisStateSpace
from s4nd.recurrence import endless_taps, recurrence

CHANNELS, SIZE = 6, 5


def space(**options: object) -> AxisStateSpace:
    settings = {"state": 8, "basis": "diag-lin", "bidirectional": False, "length": 4.0, "copies": 2}
    torch.manual_seed(0)
    return AxisStateSpace(AxisConfig(SIZE, **settings | options), CHANNELS).double()


@pytest.mark.parametrize("start", ["random", "difference", "identity", "paper"])
@pytest.mark.parametrize("repeats", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"discretisation": "bilinear"}, {"bandlimit": 0.3}, {"basis": "diag-inv"}]
)
def test_steps_equal_the_convolution_with_the_endless_kernel(
    start: str, repeats: bool, options: dict[str, object]
) -> None:
    axis, rate, steps = space(start=start, **options), 0.7, 3 * SIZE
    if start == "identity":
        torch.nn.init.normal_(axis.C)
    signal = torch.randn(2, steps, CHANNELS, dtype=torch.float64)
    taps = endless_taps(axis, steps, rate)
    expected = torch.zeros_like(signal)
    for t in range(steps):
        for lag in range(steps + 1):
            if t >= lag or repeats:
                expected[:, t] += taps[:, lag] * signal[:, max(t - lag, 0)]
    system = recurrence(axis, rate)
    state = system.start(signal[:, 0], repeats=repeats)
    for t in range(steps):
        actual, state = system.step(state, signal[:, t])
        torch.testing.assert_close(actual, expected[:, t])
    assert state.shape == (2, CHANNELS, 4)


@pytest.mark.parametrize("rate", [1.0, 0.7, 2.0])
@pytest.mark.parametrize("start", ["random", "difference", "identity", "paper"])
def test_endless_kernel_begins_as_a_long_one_and_sums_up_the_rest(start: str, rate: float) -> None:
    axis = space(start=start)
    torch.nn.init.normal_(axis.C)
    long = axis.taps(2000, rate)[0, :, 2000:]  # with what the start adds at lag 0
    taps = endless_taps(axis, SIZE, rate)
    torch.testing.assert_close(taps[:, :SIZE], long[:, :SIZE])
    torch.testing.assert_close(taps[:, SIZE], long[:, SIZE:].sum(-1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bidirectional": True}, "bidirectional=False"),
        ({"basis": "legs"}, "low-rank part; choose a diag"),
        ({"start": "deterministic"}, "choose another start"),
    ],
)
def test_axes_without_a_recurrence_are_refused(options: dict[str, object], message: str) -> None:
    axis = space(**options)
    with pytest.raises(ValueError, match=message):
        recurrence(axis)
    with pytest.raises(ValueError, match=message):
        endless_taps(axis, SIZE)
