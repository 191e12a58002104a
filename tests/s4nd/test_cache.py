"""In eval mode kernels are made once per shape and rate, and again whenever a parameter changes."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from s4nd import S4ND, AxisConfig
from s4nd.cache import Memo
from s4nd.kernels import kernel_sampling
from s4nd.kernels.grid import Grid


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
    """The output of a new layer with the same parameters and an empty cache."""
    twin = S4ND(layer.channels, layer.axes, engine=layer.engine).to(signal)
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


@pytest.mark.parametrize("training", [False, True])
def test_frozen_layers_keep_their_kernels_while_gradients_are_recorded(
    layer, generations, training
):
    layer.train(training).requires_grad_(False)
    layer.D.requires_grad_()
    signal = torch.randn(1, 3, 6, 5, requires_grad=True)
    with torch.inference_mode():
        layer(signal)
    for _ in range(3):
        layer(signal).square().sum().backward()
    assert len(generations) == 1
    assert signal.grad.abs().max() > 0
    layer.spaces[0].C.requires_grad_()
    layer(signal).sum().backward()
    assert len(generations) == 2
    assert layer.spaces[0].C.grad.abs().max() > 0


@pytest.mark.parametrize("leave", [lambda layer: layer.to("meta"), lambda layer: layer.double()])
def test_kernels_are_released_when_the_layer_moves(plain, layer, leave):
    with torch.no_grad():
        kernels = layer._operators((6, 5), (1.0, 1.0), "matmul")
    seen = [weakref.ref(x) for x in kernels]
    del kernels
    leave(layer)
    gc.collect()
    assert not any(x() is not None for x in seen)


def test_constants_are_made_once_for_all_layers(plain, monkeypatch):
    made = []
    monkeypatch.setattr(kernel_sampling, "_grids", Memo())
    monkeypatch.setattr(kernel_sampling, "Grid", lambda *key: made.append(key) or Grid(*key))
    for _ in range(2):
        S4ND(3, [AxisConfig(6, state=8), AxisConfig(5, state=4)])(torch.randn(1, 3, 6, 5))
    assert [key[:2] for key in made] == [(6, 6), (5, 5)]


def test_stale_kernels_do_not_stay(layer):
    with torch.no_grad():
        for width in range(1, 5):
            layer(torch.randn(1, 3, 2, width))
        layer.spaces[0].C.add_(1)
        layer(torch.randn(1, 3, 2, 1))
    assert len(layer._cache) == 1


@pytest.mark.usefixtures("form")
@pytest.mark.parametrize("engine", ["matmul", "fft"])
def test_fake_tensors_leave_nothing_behind(layer, engine):
    layer.engine = engine
    signal = torch.randn(1, 3, 6, 5)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
        fake = layer(mode.from_tensor(signal))
    with torch.no_grad():
        y = layer(signal)
    assert type(y) is torch.Tensor
    assert torch.equal(y, fresh(layer, signal))
    assert fake.stride() == y.stride()


@pytest.mark.usefixtures("form")
def test_nothing_is_kept_while_a_cuda_graph_is_captured(layer, monkeypatch):
    """Tensors made then have no values before the graph is replayed."""
    signal = torch.randn(1, 3, 6, 5)
    with torch.no_grad():
        with monkeypatch.context() as capture:
            capture.setattr(torch.cuda, "is_initialized", lambda: True)
            capture.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
            layer(signal)
            assert not len(layer._cache)
        layer(signal)
        assert len(layer._cache)


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


def test_threads_share_a_layer(layer):
    """More shapes than the cache holds, so that kernels are made and removed all the time."""
    signals = [torch.randn(1, 3, height, width) for height in (4, 6) for width in range(1, 8)]
    expected = [fresh(layer, signal) for signal in signals]

    def run(_):
        with torch.no_grad():
            return [layer(signal) for signal in signals * 3]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(run, range(4)):
            assert all(map(torch.equal, found, expected * 3))


def test_train_without_an_argument_is_training():
    layer = S4ND(2, [AxisConfig(4, state=4)]).eval()
    assert layer.train().training
    assert layer.spaces[0].training
