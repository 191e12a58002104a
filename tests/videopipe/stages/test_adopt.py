import json
from pathlib import Path

import pytest
import torch

from pretrained_2d import build, load_checkpoint
from pretrained_2d.errors import CheckpointError
from videopipe.pipeline.stage import Inputs
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


def test_a_checkpoint_folder_is_taken_as_it_is(tmp_path: Path, make_model) -> None:
    video = make_model(method="s4nd")
    out = tmp_path / "out"
    out.mkdir()
    summary = STAGE.run(AdoptConfig(checkpoint=video), Inputs({}), out)
    assert (summary["architecture"], summary["axes"]) == ("timm/test_resnet", 3)
    for name in ("config.json", "model.safetensors"):
        assert (out / name).read_bytes() == (video / name).read_bytes()


def test_a_folder_is_not_contradicted(tmp_path: Path, make_model) -> None:
    video = make_model(method="s4nd")
    agreeing = AdoptConfig(
        checkpoint=video, architecture="timm/test_resnet", options={"num_classes": 2}
    )
    STAGE.run(agreeing, Inputs({}), tmp_path)
    other = AdoptConfig(checkpoint=video, architecture="timm/resnet18")
    with pytest.raises(CheckpointError, match="with timm/test_resnet; leave 'architecture' out"):
        STAGE.run(other, Inputs({}), tmp_path)
    size = AdoptConfig(checkpoint=video, image_size=64)
    with pytest.raises(CheckpointError, match=", which contains it; leave 'image_size' out"):
        STAGE.run(size, Inputs({}), tmp_path)


def test_a_file_needs_the_name_of_its_network(tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"w\.pth is a file of weights: set 'architecture'"):
        STAGE.run(AdoptConfig(checkpoint=tmp_path / "w.pth"), Inputs({}), tmp_path / "out")


def test_a_folder_of_transformers_needs_no_architecture(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(
        depths=[1, 1, 1, 1], hidden_sizes=[64, 8, 8, 8], layer_type="basic", num_labels=2
    )
    transformers.ResNetForImageClassification(config).save_pretrained(tmp_path / "theirs")
    summary = STAGE.run(AdoptConfig(checkpoint=tmp_path / "theirs"), Inputs({}), tmp_path / "out")
    assert summary["architecture"] == "timm/resnet18"
    assert summary["newly_initialised"] == 0
