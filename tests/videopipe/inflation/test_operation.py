"""From checkpoint folder to checkpoint folder: network, proof, report, and every bad input."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.backbones import build
from videopipe.inflation import InflationOptions, inflate_checkpoint
from videopipe.inflation.options import InflationError, Method
from videopipe.models import load_model

PIXELS = 32
CONVNEXT = {"depths": (1, 1, 1, 1), "widths": (8, 12, 16, 16), "image_size": PIXELS}
PREPROCESSING = Preprocessing(
    image_size=PIXELS, resize=40, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4)
)


def checkpoint(folder: Path, architecture: str, **options: Any) -> Path:
    options = {"num_classes": 4, **options}
    network = build(architecture, **options)
    card = ModelCard(
        architecture=architecture,
        options=options,
        labels=("a", "b", "c", "d"),
        preprocessing=PREPROCESSING,
        provenance={"source": "a test"},
    )
    save_checkpoint(folder, network, card)
    return folder


@pytest.fixture
def resnet(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "resnet", "timm/test_resnet")


def options(**choices: Any) -> InflationOptions:
    return InflationOptions(**{"num_frames": 4, "state": 8, **choices})


@pytest.mark.parametrize("method", get_args(Method))
def test_folder_to_folder(resnet: Path, tmp_path: Path, method: str) -> None:
    out = tmp_path / "out"
    report = inflate_checkpoint(resnet, out, options(method=method, temporal_patch=2))
    assert report.proof.exact
    assert report.proof.agreement == 1
    network, card = load_model(out)
    assert (card.ndim, card.num_frames, card.clip_seconds) == (3, 4, 2.0)
    assert card.labels == ("a", "b", "c", "d")
    assert card.preprocessing == PREPROCESSING
    assert card.provenance["parent"] == {"source": "a test"}
    image = torch.randn(1, 3, PIXELS, PIXELS)
    with torch.no_grad():
        expected = load_model(resnet)[0](image)
        actual = network(image[:, :, None].expand(-1, -1, 4, -1, -1))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_report_accounts_for_every_parameter(resnet: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    report = inflate_checkpoint(resnet, out, options(), num_classes=7)
    written = json.loads((out / "inflation.json").read_text())
    assert written == json.loads(json.dumps(report.to_json()))
    before = sum(row.parameters_before for row in report.rows)
    after = sum(row.parameters_after for row in report.rows)
    assert (before, after) == (report.parameters_before, report.parameters_after)
    network, _ = load_model(out)
    assert after == sum(parameter.numel() for parameter in network.parameters())
    by_layer = {(row.layer, row.status): row for row in report.rows}
    assert by_layer["network.fc", "dropped"].before["weight"][0] == 4
    assert by_layer["network.fc", "new"].after["weight"][0] == 7
    stem = by_layer["network.conv1.0", "inflated"]
    assert stem.before.keys() < stem.after.keys()
    assert "time.kernel.axis.C" in stem.after
    assert {row.status for row in report.rows} == {"inflated", "copied", "new", "dropped"}
    table = (out / "inflation.md").read_text()
    assert "| network.conv1.0 | inflated |" in table
    assert "boring video: exact" in table


def test_new_classes_bring_labels_or_none(resnet: Path, tmp_path: Path) -> None:
    inflate_checkpoint(resnet, tmp_path / "one", options(), num_classes=7)
    assert load_model(tmp_path / "one")[1].labels is None
    inflate_checkpoint(resnet, tmp_path / "two", options(), labels=("walk", "run"))
    network, card = load_model(tmp_path / "two")
    assert card.labels == ("walk", "run")
    assert network(torch.randn(1, 3, 4, PIXELS, PIXELS)).shape == (1, 2)


def test_the_same_seed_gives_the_same_network(resnet: Path, tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("two", 3), ("three", 4)):
        choices = options(start="random")
        inflate_checkpoint(resnet, tmp_path / name, choices, num_classes=3, seed=seed)
    one, two, three = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three")
    )
    assert one == two
    assert one != three


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"method": "i3d", "padding": "zeros"}, "padding zeros"),
        ({"method": "s3d", "padding": "zeros"}, "padding zeros"),
        ({"method": "i3d", "scale": "none"}, "scale none"),
        ({"method": "s4nd", "start": "paper"}, "start paper"),
        ({"method": "s4nd", "start": "random"}, "start random"),
    ],
)
def test_an_inexact_start_is_reported_with_its_difference(
    resnet: Path, tmp_path: Path, choices: dict[str, Any], reason: str
) -> None:
    report = inflate_checkpoint(resnet, tmp_path / "out", options(**choices))
    assert not report.proof.exact
    assert report.proof.difference > 1e-3
    assert any(reason in text for text in report.proof.why_not)
    assert "NOT exact" in report.summary()


@pytest.mark.parametrize("method", ["i3d", "s3d", "center", "s4nd"])
@pytest.mark.parametrize("mixer", ["conv", "s4nd"])
def test_our_backbones(tmp_path: Path, method: str, mixer: str) -> None:
    folder = checkpoint(tmp_path / "2d", "convnext_tiny", mixer=mixer, **CONVNEXT)
    report = inflate_checkpoint(folder, tmp_path / "out", options(method=method))
    assert report.proof.exact
    rebuilt = (method == "s4nd") == (mixer == "s4nd")
    assert report.way == ("rebuilt" if rebuilt else "folded")
    network, card = load_model(tmp_path / "out")
    assert (card.inflation is None) == rebuilt
    assert network(torch.randn(1, 3, 4, PIXELS, PIXELS)).shape == (1, 4)
    assert network.embed(torch.randn(1, 3, 4, PIXELS, PIXELS)).shape == (1, 16)


@pytest.mark.parametrize("name", ["timm/vit_tiny_patch16_224", "torchvision/mobilenet_v2"])
def test_attention_and_torchvision(tmp_path: Path, name: str) -> None:
    extra = {"image_size": PIXELS} if name.startswith("timm") else {}
    folder = checkpoint(tmp_path / "2d", name, **extra)
    report = inflate_checkpoint(folder, tmp_path / "out", options())
    assert report.proof.exact
    assert load_model(tmp_path / "out")[0](torch.randn(1, 3, 4, PIXELS, PIXELS)).shape == (1, 4)


def test_a_video_network_is_not_inflated_again(resnet: Path, tmp_path: Path) -> None:
    inflate_checkpoint(resnet, tmp_path / "video", options())
    with pytest.raises(InflationError, match=r"already holds a video network \(timm/test_resnet"):
        inflate_checkpoint(tmp_path / "video", tmp_path / "out", options())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("choices", "arguments", "message"),
    [
        ({"layers": "nothing.*"}, {}, "matches no convolution or attention"),
        ({"copies": 3}, {}, r"copies \(3\) must divide channels"),
        ({}, {"num_classes": 0}, "num_classes must be at least 1, got 0"),
        ({}, {"num_classes": 3, "labels": ("a", "b")}, "num_classes is 3, but 2 labels"),
    ],
)
def test_bad_choices_write_nothing(
    resnet: Path, tmp_path: Path, choices: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InflationError, match=message):
        inflate_checkpoint(resnet, tmp_path / "out", options(**choices), **arguments)
    assert not (tmp_path / "out").exists()


def test_bad_folders_write_nothing(resnet: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(CheckpointError, match="does not exist"):
        inflate_checkpoint(tmp_path / "nowhere", out, options())
    (resnet / "config.json").write_text(
        (resnet / "config.json").read_text().replace("_res", "_rez")
    )
    with pytest.raises(ValueError, match="test_resnet"):
        inflate_checkpoint(resnet, out, options())
    (resnet / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="is not JSON"):
        inflate_checkpoint(resnet, out, options())
    with pytest.raises(InflationError, match="is the 2D checkpoint itself"):
        inflate_checkpoint(resnet, resnet, options())
    assert not out.exists()


def test_wrong_number_of_input_channels(tmp_path: Path) -> None:
    grey = checkpoint(tmp_path / "grey", "timm/test_resnet", in_chans=1)
    with pytest.raises(InflationError, match=r"takes images of 1 channels, but .* are for 3"):
        inflate_checkpoint(grey, tmp_path / "out", options())
    assert not (tmp_path / "out").exists()


def test_damaged_inflation_in_a_card_is_named(resnet: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    inflate_checkpoint(resnet, out, options())
    text = (out / "config.json").read_text()
    (out / "config.json").write_text(text.replace('"in_channels"', '"channels_in"'))
    with pytest.raises(InflationError, match="damaged"):
        load_model(out)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"length": 0.0}, "length must be above 0 steps of time, got 0"),
        ({"length": -1.0}, "length must be above 0 steps of time, got -1"),
        ({"num_frames": 1, "temporal_patch": 2}, r"num_frames \(1\) must be at least"),
        ({"temporal_kernel": 0}, "temporal_kernel must be at least 1, got 0"),
        ({"method": "center", "temporal_kernel": 4}, "must be odd for method center"),
        ({"state": 7}, "state must be an even number"),
        ({"clip_seconds": 0.0}, "clip_seconds must be above 0"),
        ({"method": "tsm"}, "method is 'tsm'; expected one of s4nd, i3d, s3d, center, shift"),
        ({"padding": "same"}, "padding is 'same'; expected one of replicate, zeros"),
    ],
)
def test_options_that_cannot_work(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        InflationOptions(**choices)
