"""The table of `make bench` has the numbers that the tools measured."""

import importlib
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="module")
def bench():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield importlib.import_module("bench")
    for name in ("bench", "bench_table"):
        del sys.modules[name]


def test_a_ratio_above_one_is_quicker_and_targets_are_judged(bench) -> None:
    layers = [
        {"shape": [8, 96, 56, 56],
         "milliseconds": {"matmul": 20.0, "fft": 160.0, "convolution": 30.0,
                          "convolution, channels last": 18.0}},
        {"shape": [1, 96, 15, 56, 56], "peak_megabytes": {"matmul": 40.0, "fft": 100.0},
         "milliseconds": {"matmul": 100.0, "fft": 900.0, "convolution": 700.0}},
    ]  # fmt: skip
    rows = list(bench.layer_rows({"layers": layers}))
    assert [(row.part, round(row.ratio, 2), row.met) for row in rows] == [
        ("layer", 8.0, True),
        ("layer", 0.9, False),
        ("layer", 9.0, False),
        ("layer", 7.0, True),
        ("memory", 0.4, False),
    ]
    text = bench.table(rows).splitlines()
    assert "| layer  | 8×96×56×56" in text[2]
    assert "depthwise 7×7 18.0 ms" in text[3]
    assert text[2].rstrip(" |").endswith("met")
    assert text[3].rstrip(" |").endswith("missed")
    assert len({len(line) for line in text}) == 1


def test_every_method_has_a_row_beside_the_2d_network(
    bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ["--architecture", "test_convnext", "--num-frames", "3", "--image-size", "32"]
    numbers, rows = tmp_path / "numbers.json", []
    for part in ("inflation", "methods"):
        command, rows_of = bench.PARTS[part]
        words = [*command, *small, "--repeats", "1", "--threads", "1"]
        monkeypatch.setattr(sys, "argv", [*words, "--json", str(numbers)])
        runpy.run_path(str(TOOLS / command[0]), run_name="__main__")
        rows += rows_of(json.loads(numbers.read_text()))
    assert [row.shape for row in rows] == ["1×3×3×32×32"] * len(rows)
    beside_2d = [row.ours for row in rows if row.alternative.startswith("2D")]
    methods = ["s4nd", "s3d", "i3d", "center", "shift", "adapter", "adapter", "attention"]
    assert [text.split()[1].rstrip(",") for text in beside_2d] == methods
    assert rows[3].alternative.startswith("plain Conv3d")
    assert [row.met is None for row in rows] == [False, False, True, False, *[True] * 5]
    assert [row.cells()[5] for row in rows[:2]] == ["≥ 0.909", "≥ 0.769"]


def test_the_page_gets_the_table_and_keeps_the_rest(bench, tmp_path: Path) -> None:
    table = bench.write_page.__globals__
    begin, end, page = table["BEGIN"], table["END"], tmp_path / "page.md"
    assert table["PAGE"].read_text(encoding="utf-8").count(f"\n{begin}\n") == 1
    assert table["PAGE"].read_text(encoding="utf-8").count(f"\n{end}\n") == 1
    page.write_text(f"# Speed\n\n{begin}\nold ×\n{end}\n\nRest.\n", encoding="utf-8")
    bench.write_page("| new × |", page)
    content = f"# Speed\n\n{begin}\n| new × |\n{end}\n\nRest.\n"
    assert page.read_text(encoding="utf-8") == content
    bench.write_page("| new × |", page)
    assert page.read_text(encoding="utf-8") == content
    page.write_text("no markers")
    with pytest.raises(SystemExit, match=r"must have one line .*begin.*restore them"):
        bench.write_page("| new |", page)
    assert page.read_text() == "no markers"


def test_the_machine_is_named(bench, monkeypatch: pytest.MonkeyPatch) -> None:
    about = Path("/proc/cpuinfo")
    name = bench.machine()
    if about.exists() and "model name" in about.read_text():
        assert name.partition(" (")[0] in about.read_text()
    assert name.endswith(f"torch {torch.__version__}")
    monkeypatch.setattr(sys, "argv", ["bench.py", "--write", "--parts", "layer"])
    with pytest.raises(SystemExit):  # half a table is not written
        bench.main()


def test_the_targets(bench) -> None:
    """Those that the table judges by; the page names no others."""
    layers = [{"shape": [8, 768, 7, 7], "milliseconds": {"matmul": 1, "fft": 1, "convolution": 1}}]
    step = {"network": {"milliseconds": {"s4nd": 1.0, "conv": 1.0, "kernels": 1.0}}}
    speed = {"decoding": 2.0, "model": 1.0, "together": 1.0}
    predicted = {
        "throughput": {"light": speed, "heavy": speed}, "loop": {"ours": 1.0, "plain": 1.0},
        "start": {"seconds": [1.0]}, "write": {"share_of_pyarrow": 1.0},
        "vectors": {"classes": 2.0, "embeddings": 1.0, "features": 3.0},
    }  # fmt: skip
    assert [row.cells()[5] for row in bench.layer_rows({"layers": layers})] == ["≥ 3", "≥ 1"]
    assert [row.cells()[5] for row in bench.step_rows(step)] == ["≥ 1.11", "≤ 0.15"]
    rows = [
        (row.ours.split()[0], row.ratio, row.cells()[5]) for row in bench.predict_rows(predicted)
    ]
    assert rows == [
        ("whole", 1.0, "≥ 0.9"), ("whole", 1.0, "≥ 0.95"), ("whole", 1.0, "≥ 3"),
        ("after", 0.1, "≤ 1"), ("embeddings", 0.5, ""), ("features", 1.5, ""),
        ("embeddings,", 1.0, "≥ 0.8"),
    ]  # fmt: skip


@pytest.mark.slow
def test_embeddings_and_features_beside_classes(
    bench, make_tiny_model: Callable[..., Path], noisy_video: Callable[..., Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert "vectors" in bench.PARTS["prediction"][0]
    import bench_vectors

    monkeypatch.setattr(bench_vectors, "VIDEOS", 2)
    model = make_tiny_model(tmp_path / "model", ndim=3)
    found = bench_vectors.vectors([noisy_video(tmp_path / "a.mp4", 1)], model, 1, tmp_path)
    assert set(found) == {"classes", "embeddings", "features"}
    assert min(found.values()) > 0


@pytest.mark.slow
def test_generated_videos_stand_in_for_real_ones(
    bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    command, rows_of = bench.PARTS["decoding"]
    quick = [*command, "--rounds", "1", "--repeats", "1"]
    monkeypatch.setattr(bench, "SHARED", tmp_path / "nothing here")
    monkeypatch.setattr(bench, "PARTS", {"decoding": (quick, rows_of)})
    monkeypatch.setattr(sys, "argv", ["bench.py", "--json", str(tmp_path / "table.json")])
    monkeypatch.setenv("PYTHONPATH", str(TOOLS.parent))
    assert bench.main() == 0
    rows = json.loads((tmp_path / "table.json").read_text())
    assert {row["part"] for row in rows} == {"decoding"}
    assert all(row["ratio"] > 0 for row in rows)
    assert capfd.readouterr().out.count("\n") == len(rows) + 4


@pytest.mark.slow
def test_exported_files_have_a_row_beside_eager(
    bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a network of one layer, which is quick to trace."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import bench_export

    small = {"depth": 1, "width": 8, "image_size": 16}
    subject = bench_export.Subject("isotropic", small, 16)
    monkeypatch.setattr(bench_export, "SUBJECTS", {"small": subject})
    words = ["bench_export.py", "--rounds", "2", "--subjects", "small"]
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(tmp_path / "export.json")])
    bench_export.main()
    found = json.loads((tmp_path / "export.json").read_text())
    assert 0 < found["exported"]["small"]["differences"]["onnx"] < 1e-4
    rows = list(bench.PARTS["export"][1](found))
    assert [row.shape for row in rows] == ["1×3×16×16"] * 2
    assert [row.ours.split()[1] for row in rows] == ["onnxruntime", "pt2"]
    times = found["exported"]["small"]["milliseconds"]
    assert rows[0].ratio == pytest.approx(times["eager"] / times["onnx"])
