"""The faster engine is measured once per device; a CPU with a scripted clock is the device."""

import json

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

from s4nd import S4ND, AxisConfig, layer
from s4nd.engines import engine_choice, engine_measurement

SHAPE = (6, 5)  # the rule takes matmul


class Clock:
    """Times by engine, and how often it was asked."""

    def __init__(self, matmul=2.0, fft=1.0):
        self.times, self.asked = {"matmul": matmul, "fft": fft}, 0

    def __call__(self, step, device):
        self.asked += 1
        step()
        return self.times["matmul" if "_matmul" in step.__qualname__ else "fft"]


@pytest.fixture
def clock(tmp_path, monkeypatch):
    """A machine whose CPU counts as a device, with an empty cache folder."""
    monkeypatch.setenv("S4ND_ENGINE_CHOICE", "measure")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = Clock()
    monkeypatch.setattr(engine_measurement, "milliseconds", found)
    monkeypatch.setattr(engine_measurement, "is_measured", lambda device: device.type == "cpu")
    monkeypatch.setattr(layer, "takes_matmul", takes_matmul_of_a_device)
    clear_cache()
    yield found
    clear_cache()


def takes_matmul_of_a_device(*problem):
    measured = engine_measurement.measured_choice(*problem)
    return engine_choice.prefers_matmul(*problem[:-1]) if measured is None else measured


def clear_cache():
    """Clear the state in memory, as in a new process."""
    engine_measurement._known.clear()
    engine_measurement._read.clear()


def layer_of(channels=4, **options):
    return S4ND(channels, [AxisConfig(n, state=4) for n in SHAPE], **options)


def test_the_faster_engine_is_measured_once_and_remembered(clock):
    assert layer_of().choose_engine(SHAPE) == "fft"
    asked = clock.asked
    assert asked == 2 * (1 + engine_measurement.ROUNDS)
    assert layer_of().choose_engine(SHAPE) == "fft"
    clear_cache()
    clock.times["fft"] = 3.0  # another process reads the file and measures nothing
    assert layer_of().choose_engine(SHAPE) == "fft"
    assert clock.asked == asked
    assert layer_of(channels=8).choose_engine(SHAPE) == "matmul"  # another class
    content = json.loads(engine_measurement.cache_file().read_text())
    assert content == {
        f"cpu, torch {torch.__version__}": {
            "6x5 kernel 6x5 channels 4 depthwise 1 1 float32": "fft",
            "6x5 kernel 6x5 channels 8 depthwise 1 1 float32": "matmul",
        }
    }


def test_a_class_holds_neighbouring_sizes_and_one_dtype(clock):
    rounded = [engine_measurement._round_up(n) for n in (1, 7, 8, 9, 15, 16, 17, 56, 57, 224)]
    assert rounded == [1, 7, 8, 10, 16, 16, 20, 56, 64, 224]
    wide = S4ND(4, [AxisConfig(64, state=4)])
    wide.choose_engine((57,))
    asked = clock.asked
    wide.choose_engine((60,))
    assert clock.asked == asked
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wide.choose_engine((60,))
    assert clock.asked == 2 * asked


def test_another_device_is_measured_again(clock, monkeypatch):
    layer_of().choose_engine(SHAPE)
    asked = clock.asked
    monkeypatch.setattr(engine_measurement, "device_name", lambda _: "another")
    layer_of().choose_engine(SHAPE)
    assert clock.asked == 2 * asked


def test_the_variable_and_the_argument_turn_measuring_off(clock, monkeypatch):
    assert layer_of(engine="matmul").choose_engine(SHAPE) == "matmul"
    monkeypatch.setenv("S4ND_ENGINE_CHOICE", "rule")
    assert layer_of().choose_engine(SHAPE) == "matmul"
    assert not clock.asked
    monkeypatch.setenv("S4ND_ENGINE_CHOICE", "fft")
    message = "^S4ND_ENGINE_CHOICE must be measure or rule, got 'fft'$"
    with pytest.raises(ValueError, match=message):
        layer_of().choose_engine(SHAPE)


def test_cpus_and_devices_without_a_clock_keep_the_rule(clock, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("S4ND_ENGINE_CHOICE", "measure")
    assert not engine_measurement.is_measured(torch.device("cpu"))
    assert not engine_measurement.is_measured(torch.device("meta"))
    layer_of().choose_engine(SHAPE)
    layer_of().to("meta").choose_engine(SHAPE)
    assert not clock.asked


def compiled(net, signal):
    torch._dynamo.reset()
    torch.compile(net, fullgraph=True, backend="aot_eager")(signal)


def fake(net, signal):
    with FakeTensorMode(allow_non_fake_inputs=True):
        net(signal)


CAPTURES = {
    "compile": compiled,
    "export": lambda net, signal: torch.export.export(net, (signal,)),
    "fake tensors": fake,
    "make_fx": lambda net, signal: make_fx(net)(signal),
    "vmap": lambda net, signal: torch.vmap(net)(signal[None]),
    "jit.trace": lambda net, signal: torch.jit.trace(net, signal, check_trace=False),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", CAPTURES)
def test_nothing_is_measured_while_a_call_is_captured(clock, how):
    net = layer_of().eval()
    CAPTURES[how](net, torch.randn(2, 4, *SHAPE))
    assert not clock.asked
    assert not engine_measurement.cache_file().exists()


def test_nothing_is_measured_while_a_cuda_graph_is_captured(clock, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    layer_of().eval()(torch.randn(2, 4, *SHAPE))
    assert not clock.asked


def test_a_measurement_leaves_no_trace_in_training(clock):
    """Neither random numbers nor saved tensors, which a gradient checkpoint counts."""
    net, signal = layer_of(), torch.randn(2, 4, *SHAPE, requires_grad=True)
    state = torch.get_rng_state()
    checkpoint(net, signal, use_reentrant=False).sum().backward()
    assert clock.asked
    assert torch.equal(torch.get_rng_state(), state)
    with torch.inference_mode():
        assert layer_of(channels=2)(signal[:, :2]).shape == (2, 2, *SHAPE)


@pytest.mark.parametrize("content", ["{", "[1]", '{"cpu": 3}', "\0"])
def test_a_damaged_file_is_written_anew(clock, content):
    path = engine_measurement.cache_file()
    path.parent.mkdir(parents=True)
    path.write_text(content)
    assert layer_of().choose_engine(SHAPE) == "fft"
    assert list(json.loads(path.read_text())) == [f"cpu, torch {torch.__version__}"]


def test_without_a_cache_folder_measurements_stay_in_memory(clock, tmp_path):
    (tmp_path / "cache").write_text("a file in the way")
    assert layer_of().choose_engine(SHAPE) == "fft"
    asked = clock.asked
    assert layer_of().choose_engine(SHAPE) == "fft"
    assert clock.asked == asked


def test_no_memory_for_it_means_the_rule(clock, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(engine_measurement, "milliseconds", full)
    assert layer_of().choose_engine(SHAPE) == "matmul"
    assert not engine_measurement._known


@pytest.mark.parametrize("options", [{}, {"rank": 2, "multiplier": 2}, {"out_channels": 3}])
def test_the_real_clock_runs_both_engines(monkeypatch, options):
    monkeypatch.setattr(engine_measurement, "SAMPLES", 2**10)
    net = layer_of(**options)
    shape = engine_measurement.ShapeClass(SHAPE, (6, 4), 4, net.mixing, torch.float32)
    assert engine_measurement._measure(shape, torch.device("cpu")) in (True, False)
