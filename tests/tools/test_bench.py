"""The table of `make bench` has the numbers that the tools measured."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="module")
def bench():
    specification = importlib.util.spec_from_file_location("bench", TOOLS / "bench.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["bench"] = module  # dataclasses look their module up
    specification.loader.exec_module(module)
    yield module
    del sys.modules["bench"]


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
    command, rows_of = bench.PARTS["inflation"]
    small = ["--architecture", "test_convnext", "--num-frames", "3", "--image-size", "32"]
    words = [*command, *small, "--repeats", "1", "--threads", "1"]
    numbers = tmp_path / "numbers.json"
    monkeypatch.setattr(sys, "argv", [*words, "--json", str(numbers)])
    runpy.run_path(str(TOOLS / command[0]), run_name="__main__")
    rows = list(rows_of(json.loads(numbers.read_text())))
    assert [row.shape for row in rows] == ["1×3×3×32×32"] * len(rows)
    beside_2d = [row.ours for row in rows if row.alternative.startswith("2D")]
    methods = ["s4nd", "s3d", "i3d", "center", "shift", "adapter", "adapter", "attention"]
    assert [text.split()[1].rstrip(",") for text in beside_2d] == methods
    assert rows[-1].alternative.startswith("plain Conv3d")
    assert [row.met is None for row in rows] == [False, False, *[True] * 6, False]
    assert bench.table(rows).count("≥ 0.77") == 2


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
    assert capfd.readouterr().out.count("\n") == len(rows) + 2


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
