"""The sweep of exports keeps every trial, failures included, and resumes."""

import importlib
import json
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
SIZES = {
    "timm/test_resnet": ["resnet", 1], "timm/test_vit": ["vision_transformer", 2],
    "torchvision/resnet18": ["torchvision.resnet", 1],
}  # fmt: skip


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    yield importlib.import_module("export_coverage")
    for name in ("export_coverage", "inflation_coverage", "coverage_summary"):
        sys.modules.pop(name, None)


def test_every_family_is_tried_by_one_method_before_any_by_a_second(tool):
    turns = tool.in_turns(["a", "b"], 3)
    assert turns[:3] == [(0, "a"), (1, "b"), (2, "a")]
    assert sorted(turns) == [(place, method) for place in range(3) for method in "ab"]


def test_trials_are_recorded_and_not_repeated(tool, tmp_path, monkeypatch):
    out = tmp_path / "export.jsonl"
    out.with_suffix(".sizes.json").write_text(json.dumps(SIZES))
    tried = []

    def trial(name, size, resized, method):
        tried.append((name, method))
        if name == "timm/test_vit":
            raise RuntimeError("no|such operator")
        return {"difference": 1e-7, "same_top1": 4, "operators": 3, "largest_rank": 5}

    monkeypatch.setattr(tool, "try_export", trial)
    sized = []
    monkeypatch.setattr(tool, "smallest_input", lambda name: sized.append(name) or (64, True))
    assert not tool.run(out, 0, ["s4nd"], None)  # no time
    assert tool.run(out, 5, ["s4nd"], None)
    assert tool.run(out, 5, ["s4nd", "s3d"], None)
    assert tried == [
        ("timm/test_resnet", "s4nd"), ("timm/test_vit", "s4nd"),
        ("timm/test_vit", "s3d"), ("timm/test_resnet", "s3d"),
    ]  # fmt: skip
    assert sized == ["timm/test_resnet", "timm/test_vit"]
    summary = tool.summary(out)
    assert "| `s4nd` | 2 | 1 | 1 (50%) | 1.0e-07 |" in summary
    assert "| `timm/test_vit` | RuntimeError: no/such operator | s4nd, s3d |" in summary
