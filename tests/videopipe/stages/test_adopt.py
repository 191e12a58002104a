import json
from pathlib import Path

import pytest
import torch

from pretrained_2d import build, load_checkpoint
from videopipe.stage import Inputs
from videopipe.stages.adopt import STAGE, AdoptConfig


def test_the_stage_writes_a_checkpoint_and_a_report(tmp_path: Path) -> None:
    network = build("timm/test_resnet", num_classes=2)
    torch.save(network.network.state_dict(), tmp_path / "w.pth")
    (tmp_path / "labels.txt").write_text("yes\nno\n")
    config = AdoptConfig(
        checkpoint=tmp_path / "w.pth",
        architecture="timm/test_resnet",
        labels_file=tmp_path / "labels.txt",
        crop=1.0,
    )
    summary = STAGE.run(config, Inputs({}), tmp_path / "out")
    assert summary["axes"] == 2
    assert summary["newly_initialised"] == 0
    again, card = load_checkpoint(tmp_path / "out")
    assert card.labels == ("yes", "no")
    assert torch.equal(again.head.weight, network.head.weight)
    assert json.loads((tmp_path / "out" / "adoption.json").read_text())["matched"]


def test_settings_that_contradict_each_other() -> None:
    common = {"checkpoint": Path("w.pth"), "architecture": "timm/test_resnet"}
    with pytest.raises(ValueError, match="not both"):
        AdoptConfig(**common, labels=("a",), labels_file=Path("l.txt"))
    with pytest.raises(ValueError, match="it is a fraction"):
        AdoptConfig(**common, crop=87.5)
