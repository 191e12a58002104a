"""The coverage tool records every trial once, finds the smallest input, and sums up."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def coverage(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module("inflation_coverage")
    for name in ("inflation_coverage", "coverage_summary"):
        sys.modules.pop(name, None)


def test_trials_are_recorded_once_and_summed_up(coverage, tmp_path: Path, monkeypatch) -> None:
    out = tmp_path / "record.jsonl"
    sizes = {"timm/test_resnet": ("resnet", 2), "timm/test_vit": ("vision_transformer", 1)}
    out.with_suffix(".sizes.json").write_text(json.dumps(sizes))
    args = argparse.Namespace(
        out=out, minutes=5, per_family=2, library=None, methods=["shift"], subjects=["encoder"]
    )
    assert coverage.run(args)
    lines = coverage.read(out)
    assert [line["name"] for line in lines] == ["timm/test_vit", "timm/test_resnet"]  # small first
    assert [(line["size"], line["resized"]) for line in lines] == [(64, True), (64, False)]
    assert all(line["difference"] < 1e-4 and line["gradient"] for line in lines)

    def refuse(name: str) -> None:
        raise AssertionError(f"the size of {name} is known")

    monkeypatch.setattr(coverage, "smallest_input", refuse)
    args.subjects = ["encoder", "features"]
    assert coverage.run(args)
    assert [line["subject"] for line in coverage.read(out)] == ["encoder"] * 2 + ["features"] * 2
    failed = {**lines[0], "method": "s3d", "difference": 0.5}
    coverage.append(out, failed)
    coverage.append(out, {**failed, "method": "i3d", "error": "ValueError: no"})
    text = coverage.summary(out)
    assert "6 trials of 2 architectures" in text
    assert "| library | as | families | `shift` | `s3d` | `i3d` | largest difference |" in text
    assert "| timm | encoder | 2 | 2 of 2 | 0 of 1 | 0 of 1 |" in text
    assert "| timm | features | 2 | 2 of 2 | 0 of 0 | 0 of 0 |" in text
    assert "| timm/test_vit: not exact | encoder s3d |" in text
    assert "| timm/test_vit: ValueError: no | encoder i3d |" in text


def test_a_network_that_does_not_mix_time_is_noticed(coverage, monkeypatch) -> None:
    network = coverage.lively_network("timm/test_resnet", {}, 0)
    found, maps = coverage.try_method(network, 64, "s3d", ["encoder", "features"])
    assert found["gradient"]
    assert maps["gradient"]
    assert [found["subject"], maps["subject"]] == ["encoder", "features"]
    inflate = coverage.inflate

    def broken(*args, **kwargs):
        folded = inflate(*args, **kwargs)
        with torch.no_grad():
            for layer in folded.plan.layers:
                folded.network.get_submodule(layer.name).time.kernel.weight.mul_(2)
        return folded

    monkeypatch.setattr(coverage, "inflate", broken)
    results = list(coverage.try_method(network, 64, "s3d", ["encoder", "features"]))
    assert all(result["difference"] > 0.1 for result in results)


def test_an_architecture_that_computes_while_it_is_built_is_counted(coverage, monkeypatch) -> None:
    import torchvision

    expected = sum(
        p.numel() for p in torchvision.models.regnet_y_400mf(num_classes=10).parameters()
    )
    assert coverage.parameter_count("torchvision/regnet_y_400mf") == expected
    assert coverage.parameter_count("torchvision/resnet18") == 11_181_642

    def broken(name: str, **options: int) -> None:
        raise RuntimeError(name)

    monkeypatch.setattr(coverage, "build", broken)
    assert coverage.parameter_count("timm/resnet18") == 0
    trial = next(coverage.trials("timm/resnet18", None, [("s3d", "encoder")]))
    assert trial["error"] == "does not build or run: timm/resnet18"
