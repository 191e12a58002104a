"""The stage `inflate` turns a backbone into a video network and writes its report."""

import json
from pathlib import Path

import pytest

from pretrained_2d.checkpoints.folder import read_card
from videopipe.pipeline.stage import Inputs, Kind, Result
from videopipe.stages import STAGES
from videopipe.stages.inflate import InflateConfig, run


@pytest.fixture
def inputs(isotropic_backbone: Path) -> Inputs:
    return Inputs({"backbone": [Result(isotropic_backbone, "pretrain")]})


@pytest.mark.parametrize("length", [20.0, 4.0, 2.0, 1.0])
def test_lengths_of_the_ablation(inputs: Inputs, tmp_path: Path, length: float) -> None:
    out = tmp_path / "out"
    out.mkdir()
    summary = run(InflateConfig(length=length, num_frames=6, num_classes=5), inputs, out)
    assert summary["exact"]
    assert summary["parameters"] > summary["parameters_2d"]
    card = read_card(out)
    assert card.options["time_axis"]["length"] == length
    assert card.options["num_classes"] == 5
    assert json.loads((out / "inflation.json").read_text())["way"] == "rebuilt"
    assert (out / "inflation.md").is_file()


def test_bad_values_are_known_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="length must be above 0"):
        InflateConfig(length=0)
    with pytest.raises(ValueError, match="num_classes must be at least 1, got 0"):
        InflateConfig(num_classes=0)


def test_it_makes_a_video_network_of_a_backbone() -> None:
    stage = STAGES["inflate"]
    assert stage.output is Kind.VIDEO_MODEL
    assert stage.inputs["backbone"].kinds == (Kind.BACKBONE,)
