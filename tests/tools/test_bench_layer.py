"""The benchmark of the layer: its tables on a CPU, and the calls it makes on a GPU."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, ModuleType]]:
    """`bench_layer` and `bench_device`, with shapes that take no time."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setenv("PYTHONPATH", str(TOOLS.parent))
    layer, device = (importlib.import_module(name) for name in ("bench_layer", "bench_device"))
    for name, shapes in {
        "SHAPES": [(1, 2, 6, 6), (1, 2, 3, 4, 4)],
        "CROSSOVER_1D": [(1, 2, 8)],
        "CROSSOVER_2D": [(1, 2, 4, 4)],
        "CROSSOVER_3D": [(1, 2, 3, 3, 3)],
    }.items():
        monkeypatch.setattr(layer, name, shapes)
    threads = torch.get_num_threads()
    yield layer, device
    torch.set_num_threads(threads)
    for name in ("bench_layer", "bench_device"):
        del sys.modules[name]


def results(
    layer: ModuleType, out: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> dict[str, object]:
    words = ["--rounds", "1", "--threads", "1", "--device", "cpu", "--json", str(out)]
    monkeypatch.setattr(sys, "argv", ["bench_layer.py", *words, *arguments])
    layer.main()
    return json.loads(out.read_text())


@pytest.mark.slow
def test_every_table_is_printed(
    tools: tuple[ModuleType, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    layer = tools[0]
    found = results(layer, tmp_path / "a", monkeypatch, "--crossover")
    assert found["device"] == "cpu"
    assert [row["auto"] for row in found["crossover"]] == ["matmul"] * 6
    found = results(layer, tmp_path / "b", monkeypatch, "--profile")
    assert set(found["profile"]) == {"1x2x6x6", "1x2x3x4x4"}
    assert "kernel generation" in capsys.readouterr().out
    layer.network_step("conv", 1, 32, torch.device("cpu"))()


@pytest.mark.slow  # memory is measured in a process of its own for each row
def test_the_table_of_layers(
    tools: tuple[ModuleType, ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = results(tools[0], tmp_path / "a", monkeypatch)
    assert [row["shape"] for row in found["layers"]] == [[1, 2, 6, 6], [1, 2, 3, 4, 4]]
    assert "1x2x6x6" in capsys.readouterr().out


class FakeCuda:
    """Records what is asked of torch.cuda; a step allocates 3 MiB and takes 7 ms."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def note(self, name: str, value: object = None) -> object:
        return lambda *_, **__: (self.calls.append(name), value)[1]

    def Event(self, *, enable_timing: bool) -> "FakeCuda":
        assert enable_timing
        return self

    def record(self) -> None:
        self.calls.append("record")

    def synchronize(self, *_: object) -> None:
        self.calls.append("synchronize")

    def elapsed_time(self, _: "FakeCuda") -> float:
        self.calls.append("elapsed")
        return 7.0


def test_a_gpu_is_timed_by_events_after_a_warm_up(
    tools: tuple[ModuleType, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, fake, cuda = tools[1], FakeCuda(), torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "Event", fake.Event)
    monkeypatch.setattr(torch.cuda, "synchronize", fake.synchronize)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", fake.note("reset"))
    monkeypatch.setattr(torch.cuda, "memory_allocated", fake.note("before", 2**20))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", fake.note("peak", 4 * 2**20))

    def step() -> None:
        fake.calls.append("step")

    assert module.milliseconds(step, cuda) == 7.0
    assert fake.calls == ["record", "step", "record", "synchronize", "elapsed"]
    fake.calls.clear()
    module.warm_up(step, cuda)
    assert fake.calls == ["step"] * module.WARM_UP_STEPS + ["synchronize"]
    fake.calls.clear()
    assert module.added_megabytes(step, cuda) == 3.0
    assert fake.calls == ["synchronize", "reset", "before", "step", "synchronize", "peak"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named(tools: tuple[ModuleType, ModuleType]) -> None:
    with pytest.raises(SystemExit, match="--device cuda is not there"):
        tools[1].check_device("cuda")
    with pytest.raises(SystemExit, match="--device is meta; times are measured on cpu and cuda"):
        tools[1].check_device("meta")
