import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pretrained_2d import (
    CheckpointError,
    ModelCard,
    Preprocessing,
    build,
    load_checkpoint,
)
from pretrained_2d.checkpoints.folder import read_card, save_checkpoint
from pretrained_2d.checkpoints.foreign import load_foreign, read_tensors

SMALL = {"depths": [1, 1, 1, 1], "widths": [4, 4, 8, 8], "num_classes": 3, "image_size": 32}
CARD = ModelCard(
    architecture="convnext_tiny",
    options=SMALL,
    labels=("walk", "läuft", "跳"),
    preprocessing=Preprocessing(image_size=32, resize=40, mean=(0.1, 0.2, 0.3)),
    provenance={"parent": "nobody", "top1": 0.25},
)
# One of every kind, with small inputs and the options that distinguish the kinds.
KINDS = {
    "convnext conv": (ModelCard(architecture="convnext_tiny", options=SMALL), (32, 32)),
    "convnext s4nd": (
        ModelCard(
            architecture="convnext_micro",
            options={**SMALL, "mixer": "s4nd", "stem": "s4nd", "downsample": "s4nd"},
        ),
        (32, 32),
    ),
    "convnext 3d": (
        ModelCard(
            architecture="convnext_tiny",
            options={**SMALL, "mixer": "s4nd", "num_frames": 4},
            ndim=3,
        ),
        (4, 32, 32),
    ),
    "convnext s3d": (
        ModelCard(architecture="convnext_tiny", options={**SMALL, "mixer": "separable"}, ndim=3),
        (4, 32, 32),
    ),
    "vit": (
        ModelCard(
            architecture="vit_base",
            options={"depth": 1, "width": 12, "image_size": 32, "mixer": "s4nd"},
        ),
        (32, 32),
    ),
    "isotropic": (
        ModelCard(architecture="isotropic", options={"depth": 1, "width": 8, "image_size": 8}),
        (8, 8),
    ),
    "inception": (ModelCard(architecture="inception", options={"num_classes": 3}), (32, 32)),
    "inception_i3d": (
        ModelCard(architecture="inception_i3d", options={"num_classes": 3}, ndim=3),
        (4, 32, 32),
    ),
    "timm": (ModelCard(architecture="timm/test_resnet", options={"num_classes": 3}), (32, 32)),
    "torchvision": (
        ModelCard(architecture="torchvision/mc3_18", options={"num_classes": 3}, ndim=3),
        (2, 16, 16),
    ),
}
FRESH = """
import sys, torch
from pathlib import Path
from pretrained_2d import load_checkpoint
for folder in sorted(Path(sys.argv[1]).iterdir()):
    network, card = load_checkpoint(folder)
    with torch.inference_mode():
        torch.save(network(torch.load(folder / "signal.pt")), folder / "logits.pt")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_checkpoint(tmp_path / "model", build(CARD.architecture, **SMALL), CARD)
    return tmp_path / "model"


def test_a_fresh_process_rebuilds_every_kind_bit_for_bit(tmp_path: Path) -> None:
    expected = {}
    for kind, (card, size) in KINDS.items():
        network = build(card.architecture, **{"ndim": card.ndim, **card.options}).eval()
        _randomise(network)
        path = tmp_path / kind.replace(" ", "_")
        save_checkpoint(path, network, card)
        signal = torch.randn(2, 3, *size)
        torch.save(signal, path / "signal.pt")
        with torch.inference_mode():
            expected[path] = network(signal)
    threads = {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    command = [sys.executable, "-c", FRESH, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, **threads})
    for path, logits in expected.items():
        assert torch.equal(torch.load(path / "logits.pt"), logits), path.name


def _randomise(network: torch.nn.Module) -> None:
    """Set random weights and statistics, unlike those of any initialisation."""
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                noise = 0.01 * torch.rand_like(tensor)
                tensor.add_(noise.abs() if name.endswith("var") else noise)


def test_the_card_comes_back_as_it_was(folder: Path) -> None:
    network, card = load_checkpoint(folder)
    assert card == CARD
    assert not network.training
    assert read_card(folder) == CARD
    assert (folder / "config.json").read_text(encoding="utf-8").count("跳") == 1


def test_other_files_in_the_folder_stay(folder: Path) -> None:
    (folder / "metrics.jsonl").write_text("{}")
    save_checkpoint(folder, build(CARD.architecture, **SMALL), CARD)
    assert (folder / "metrics.jsonl").exists()
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
    ]
    load_checkpoint(folder)


def test_tied_and_strided_weights_are_stored_whole(tmp_path: Path) -> None:
    network = build(CARD.architecture, **SMALL)
    network.stages[0].blocks[0].norm.weight = network.stages[1].blocks[0].norm.weight
    network.head.weight = torch.nn.Parameter(torch.randn(8, 3).T)
    save_checkpoint(tmp_path, network, CARD)
    again, _ = load_checkpoint(tmp_path)
    assert torch.equal(again.head.weight, network.head.weight)


def _edit(**changes):
    def change(folder: Path) -> None:
        path = folder / "config.json"
        content = json.loads(path.read_text())
        content.update(changes)
        path.write_text(json.dumps({k: v for k, v in content.items() if v != "remove"}))

    return change


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _flip_a_bit(folder: Path) -> None:
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))


def _other_weights(folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    save_file({**state, "extra.weight": torch.zeros(2)}, folder / "model.safetensors")


def _no_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def _a_file(folder: Path) -> None:
    _no_folder(folder)
    folder.write_bytes(b"weights")


BAD_FOLDERS = {
    "no folder": (_no_folder, "does not exist"),
    "a file": (_a_file, "is a file, not a checkpoint folder; adopt it"),
    "no card": (lambda f: (f / "config.json").unlink(), "config.json is missing"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
    "truncated weights": (_truncate, "truncated, damaged or replaced"),
    "damaged weights": (_flip_a_bit, "truncated, damaged or replaced"),
    "replaced weights": (_other_weights, "truncated, damaged or replaced"),
    "no JSON": (lambda f: (f / "config.json").write_text("{..."), "is not JSON"),
    "not UTF-8": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe{}"), "is not JSON"),
    "a list": (lambda f: (f / "config.json").write_text("[]"), "belongs to another program"),
    "another program": (_edit(format="remove"), "belongs to another program"),
    "newer version": (_edit(version=99), "has version 99, this program reads 1"),
    "no architecture": (_edit(architecture="remove"), "'architecture' is missing"),
    "unknown architecture": (_edit(architecture="convnext_tinny"), "did you mean 'convnext_tiny'"),
    "unknown entry": (_edit(colour="red"), "unknown entries .'colour'"),
    "unknown option": (_edit(options={"depht": 3}), "no option 'depht'"),
    "wrong option": (_edit(options={**SMALL, "widths": [4, 4, 8, 16]}), "does not fit"),
    "wrong preprocessing": (_edit(preprocessing={"size": 3}), "size"),
    "options of the wrong type": (_edit(options={"depths": "many"}), "convnext_tiny"),
    "labels of another network": (_edit(labels=["a", "b"]), "names 2 labels, but.* 3 classes"),
    "folded": (_edit(inflation={"method": "i3d"}), "videopipe.models.load_model"),
}


@pytest.mark.parametrize("kind", BAD_FOLDERS)
def test_a_bad_folder_is_named_with_a_remedy(kind: str, folder: Path) -> None:
    spoil, message = BAD_FOLDERS[kind]
    spoil(folder)
    with pytest.raises(ValueError, match=message):
        load_checkpoint(folder)


def test_a_mismatch_is_shown_side_by_side(folder: Path) -> None:
    _edit(options={**SMALL, "widths": [4, 4, 8, 16]})(folder)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder)
    text = str(caught.value)
    assert "the network has" in text
    assert "the file has" in text
    lines = [line.split("  ") for line in text.splitlines()]
    pairs = {(line[1], line[-1].strip()) for line in lines if len(line) > 2}
    assert ("norm.weight (16,)", "norm.weight (8,)") in pairs


def test_a_killed_save_leaves_the_old_checkpoint(folder: Path, monkeypatch) -> None:
    (folder / "metrics.jsonl").write_text("")
    old, _ = load_checkpoint(folder)
    before = sorted(path.name for path in folder.iterdir())

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)  # a slow write, killed in the middle
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(folder, build(CARD.architecture, **SMALL), CARD)
    assert sorted(path.name for path in folder.iterdir()) == before
    again, _ = load_checkpoint(folder)
    assert torch.equal(again.head.weight, old.head.weight)


def test_a_crash_between_the_two_files_is_detected(folder: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "new", build(CARD.architecture, **SMALL), CARD)
    (tmp_path / "new" / "model.safetensors").replace(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"not the file that config\.json was written for"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    "changes", [{"architecture": 5}, {"architecture": ["timm/resnet18"]}, {"options": [1]}]
)
def test_a_card_of_other_types_is_refused(changes, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model", build("convnext_tiny", **SMALL), CARD)
    content = json.loads((tmp_path / "model/config.json").read_text())
    (tmp_path / "model/config.json").write_text(json.dumps(content | changes))
    with pytest.raises(CheckpointError, match="'architecture' must be a name"):
        read_card(tmp_path / "model")


def test_a_network_that_requires_versions_is_loaded_and_adopted(tmp_path: Path) -> None:
    name = "torchvision/mnasnet0_5"  # refuses state dicts without the version of its module
    network = build(name, num_classes=3).eval()
    card = ModelCard(architecture=name, options={"num_classes": 3})
    save_checkpoint(tmp_path / "model", network, card)
    again, _ = load_checkpoint(tmp_path / "model")
    torch.save(dict(network.network.state_dict()), tmp_path / "weights.pth")
    file = read_tensors(tmp_path / "weights.pth")
    adopted, _, _ = load_foreign(file, name, {})
    for other in (again, adopted):
        for key, tensor in network.state_dict().items():
            assert torch.equal(other.state_dict()[key], tensor)
