"""The coverage tool records every trial once, finds the smallest input, and sums up."""

import argparse
import importlib.util
import json
from pathlib import Path

import pytest
import torch

TOOL = Path(__file__).resolve().parents[2] / "tools" / "inflation_coverage.py"


@pytest.fixture(scope="module")
def coverage():
    specification = importlib.util.spec_from_file_location("inflation_coverage", TOOL)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


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
    assert all(coverage.verdict(line) == "exact" for line in lines)

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
    assert "| timm | features | `shift` | 2 | 2 | 2 (100.0%) | 2 |" in text
    assert "| timm/test_vit: not exact | encoder s3d |" in text
    assert "| timm/test_vit: ValueError: no | encoder i3d |" in text


def test_a_network_that_does_not_mix_time_is_noticed(coverage, monkeypatch) -> None:
    network = coverage.lively_network("timm/test_resnet", {}, 0)
    found = coverage.try_method(network, 64, "s3d", "encoder")
    assert found["gradient"]
    inflate = coverage.inflate

    def broken(*args, **kwargs):
        folded = inflate(*args, **kwargs)
        with torch.no_grad():
            for layer in folded.plan.layers:
                folded.network.get_submodule(layer.name).time.kernel.weight.mul_(2)
        return folded

    monkeypatch.setattr(coverage, "inflate", broken)
    assert coverage.try_method(network, 64, "s3d", "encoder")["difference"] > 0.1
