"""In eval mode kernels are made once per shape and rate, and again whenever a parameter changes."""

import pytest
import torch

from s4nd import S4ND, AxisConfig


@pytest.fixture
def layer():
    return S4ND(3, [AxisConfig(6, state=8), AxisConfig(5, state=8)]).eval()


@pytest.fixture
def generations(layer, monkeypatch):
    """How often kernels were made."""
    made = []
    original = layer.taps
    monkeypatch.setattr(layer, "taps", lambda *args: made.append(args) or original(*args))
    return made


def fresh(layer, signal, rate=1.0):
    """The output of a layer with the same parameters that has never seen a signal."""
    twin = S4ND(layer.channels, layer.axes).to(signal)
    twin.load_state_dict(layer.state_dict())
    twin.bandlimit = layer.bandlimit
    with torch.no_grad():
        return twin.eval()(signal, rate)


@torch.no_grad()
def test_once_per_shape_and_rate(layer, generations):
    signal = torch.randn(1, 3, 6, 5)
    for _ in range(3):
        layer(signal)
        layer(signal, 2.0)
        layer(signal[..., :4])
    assert len(generations) == 3
    layer(torch.randn(7, 3, 6, 5))  # another batch size is the same kernel
    assert len(generations) == 3


def test_not_while_gradients_are_recorded(layer, generations):
    signal = torch.randn(1, 3, 6, 5)
    for _ in range(2):
        layer(signal).sum().backward()
    assert len(generations) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: torch.optim.SGD(layer.parameters(), lr=0.1).step(),
        lambda layer: layer.load_state_dict(S4ND(3, layer.axes).state_dict()),
        lambda layer: layer.load_state_dict(S4ND(3, layer.axes).state_dict(), assign=True),
        lambda layer: layer.half().float(),
        lambda layer: layer.to(torch.bfloat16).to(torch.float32),
        lambda layer: layer.spaces[0].half().float(),
        lambda layer: setattr(layer, "bandlimit", 0.1),
        lambda layer: (layer.spaces[1].C.data.mul_(2), layer.train(), layer.eval()),
        lambda layer: setattr(layer.spaces[0], "C", torch.nn.Parameter(layer.spaces[0].C * 3)),
    ],
)
def test_again_when_anything_changed(layer, change):
    signal = torch.randn(1, 3, 6, 5)
    with torch.no_grad():
        before = layer(signal)
    layer.train()
    layer(signal).square().sum().backward()
    layer.eval()
    with torch.no_grad():
        assert torch.equal(layer(signal), before)
        change(layer)
        after = layer(signal)
    assert not torch.equal(after, before)
    assert torch.equal(after, fresh(layer, signal))


def test_follows_training_step_by_step(layer):
    signal, optimizer = torch.randn(1, 3, 6, 5), torch.optim.AdamW(layer.parameters(), lr=0.01)
    for _ in range(3):
        layer.train()
        optimizer.zero_grad()
        layer(signal).square().sum().backward()
        optimizer.step()
        layer.eval()
        with torch.no_grad():
            assert torch.equal(layer(signal), fresh(layer, signal))


def test_inference_mode_and_gradients_may_alternate(layer):
    signal = torch.randn(1, 3, 6, 5)
    with torch.inference_mode():
        expected = layer(signal)
    layer(signal).sum().backward()
    with torch.no_grad():
        assert torch.equal(layer(signal), expected)


def test_many_shapes_do_not_fill_the_memory(layer):
    with torch.no_grad():
        for width in range(1, 40):
            layer(torch.randn(1, 3, 2, width))
    assert len(layer._cache) <= 8
