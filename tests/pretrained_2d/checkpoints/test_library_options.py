"""A checkpoint folder from elsewhere cannot make a library open a file."""

import json
from pathlib import Path

import pytest
import torch

from pretrained_2d import CheckpointError, ModelCard, PretrainedError, build, load_checkpoint
from pretrained_2d.checkpoints.folder import read_card, save_checkpoint


class Attack:
    """Unpickling this writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.write_text, (self.target, "executed")


HOSTILE = {
    "timm/test_resnet": [
        "checkpoint_path",
        "cache_dir",
        "pretrained",
        "pretrained_cfg",
        "pretrained_cfg_overlay",
        "pretrained_strict",
        "kwargs_filter",
        "features_only",
        "no_such_option",
    ],
    "torchvision/resnet18": ["weights", "pretrained", "progress", "norm_layer"],
}
OPTIONS = [(name, option) for name, options in HOSTILE.items() for option in options]


def hostile_checkpoint(folder: Path, architecture: str, options: dict) -> None:
    """A whole checkpoint folder whose card was edited by hand."""
    card = ModelCard(architecture=architecture, options={"num_classes": 3})
    save_checkpoint(folder, build(architecture, num_classes=3), card)
    content = json.loads((folder / "config.json").read_text())
    content["options"] |= options
    (folder / "config.json").write_text(json.dumps(content))


@pytest.mark.parametrize(("architecture", "option"), OPTIONS)
def test_options_that_open_files_never_reach_a_library(architecture, option, tmp_path: Path):
    target, pickled = tmp_path / "executed.txt", tmp_path / "weights.pth"
    torch.save({"state_dict": {}, "hook": Attack(target)}, pickled)
    values = [str(pickled), True, {"file": str(pickled), "custom_load": True}, "hf-hub:a/b"]
    for number, value in enumerate(values):
        folder = tmp_path / str(number)
        hostile_checkpoint(folder, architecture, {option: value})
        for read in (read_card, load_checkpoint):
            with pytest.raises(CheckpointError, match=rf"config\.json.*the option '{option}'"):
                read(folder)
        with pytest.raises(PretrainedError, match=f"the option '{option}'"):
            build(architecture, **{option: value})
        card = ModelCard(architecture=architecture, options={option: value})
        with pytest.raises(PretrainedError, match=f"the option '{option}'"):
            save_checkpoint(tmp_path / "saved", torch.nn.Identity(), card)
    assert not target.exists()
    assert not (tmp_path / "saved").exists()


BAD_VALUES = ["/tmp/weights.pth", "a.pth", "hf-hub:a/b", "x" * 41, {"a": 1}, float("nan"), [[[1]]]]


@pytest.mark.parametrize("value", BAD_VALUES, ids=str)
def test_values_of_options_are_plain(value, tmp_path: Path) -> None:
    hostile_checkpoint(tmp_path / "model", "timm/test_resnet", {"global_pool": value})
    with pytest.raises(CheckpointError, match=r"option 'global_pool' is .*expected a number"):
        load_checkpoint(tmp_path / "model")


@pytest.mark.parametrize("name", ["hf-hub:a/b", "local-dir:/tmp/x", "../x", "a b"])
def test_a_path_in_place_of_a_name_is_refused(name: str) -> None:
    with pytest.raises(PretrainedError, match="is not a name of timm"):
        build(f"timm/{name}")
