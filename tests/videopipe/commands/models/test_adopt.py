from pathlib import Path

import pytest
import torch

from pretrained_2d import build, read_card
from videopipe.cli import main


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    network = build("timm/test_resnet", num_classes=3).network
    state = {f"module.{name}": tensor for name, tensor in network.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 4}, tmp_path / "weights.pth.tar")
    return tmp_path / "weights.pth.tar"


def test_everything_given_is_in_the_json(weights: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "model"
    arguments = f"adopt {weights} --architecture timm/test_resnet --out {out} --labels a,b,c"
    arguments += " --mean 0.1,0.2,0.3 --std 0.4,0.5,0.6 --image-size 64 --crop 0.5"
    arguments += " --interpolation bilinear --option drop_path=0.1"
    assert main(arguments.split()) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}\n"
    assert "(state_dict) matched by the library's names" in printed.err
    assert "prefixes taken off: module." in printed.err
    card = read_card(out)
    assert card.labels == ("a", "b", "c")
    assert card.options == {"num_classes": 3, "drop_path": 0.1}
    pixels = card.preprocessing
    assert (pixels.image_size, pixels.resize, pixels.interpolation) == (64, 128, "bilinear")
    assert (pixels.mean, pixels.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert card.provenance["file"] == "weights.pth.tar"


def test_frames_and_seconds_of_a_video_network(tmp_path: Path) -> None:
    torch.save(build("torchvision/mc3_18", num_classes=2).network.state_dict(), tmp_path / "w.pt")
    arguments = f"adopt {tmp_path}/w.pt --architecture torchvision/mc3_18 --out {tmp_path}/m"
    assert main([*arguments.split(), "--num-frames", "8", "--clip-seconds", "1.5"]) == 0
    card = read_card(tmp_path / "m")
    assert (card.ndim, card.num_frames, card.clip_seconds) == (3, 8, 1.5)


def test_an_existing_checkpoint_is_replaced_only_when_asked_to(
    weights: Path, tmp_path: Path, capsys
) -> None:
    arguments = f"adopt {weights} --architecture timm/test_resnet --out {tmp_path}/m".split()
    assert main(arguments) == 0
    before = (tmp_path / "m" / "config.json").read_bytes()
    assert main([*arguments, "--labels", "a,b,c"]) == 1
    assert "is not empty; name a new folder, or add --overwrite" in capsys.readouterr().err
    assert (tmp_path / "m" / "config.json").read_bytes() == before
    assert main([*arguments, "--labels", "a,b,c", "--overwrite"]) == 0
    assert read_card(tmp_path / "m").labels == ("a", "b", "c")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("--labels a,b", "distinguishes 3 classes, but 2 are asked for"),
        ("--crop 87.5", "give the fraction"),
        ("--option depth=3", "does not take"),
        ("--labels nowhere.txt", "neither a file nor a list"),
    ],
)
def test_an_error_is_one_message_and_exit_1(extra, message, weights, tmp_path, capsys) -> None:
    arguments = f"adopt {weights} --architecture timm/test_resnet --out {tmp_path}/model {extra}"
    assert main(arguments.split()) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_a_mismatch_shows_both_sides(weights: Path, tmp_path: Path, capsys) -> None:
    arguments = f"adopt {weights} --architecture timm/test_convnext --out {tmp_path}/model"
    assert main(arguments.split()) == 1
    error = capsys.readouterr().err
    assert "does not fit timm/test_convnext" in error
    assert "the network has" in error
    assert "the file has" in error


def test_without_an_architecture_a_file_and_a_folder_give_different_errors(
    weights: Path, tmp_path: Path, capsys
) -> None:
    assert main(["adopt", str(weights), "--out", str(tmp_path / "m")]) == 1
    assert f"--architecture is missing: name the network of {weights}." in capsys.readouterr().err
    assert main(["adopt", str(tmp_path), "--out", str(tmp_path / "m")]) == 1
    assert "a checkpoint of videopipe needs no adopting" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_a_folder_of_transformers_names_its_network_and_is_inflated(tmp_path: Path, capsys) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.Dinov2Config(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=32, patch_size=8
    )
    transformers.Dinov2Model(config).save_pretrained(tmp_path / "theirs")
    assert main(["adopt", str(tmp_path / "theirs"), "--out", str(tmp_path / "model")]) == 0
    card = read_card(tmp_path / "model")
    assert (card.architecture, card.options["num_classes"]) == ("timm/vit_base_patch14_dinov2", 0)
    arguments = ["inflate", str(tmp_path / "model"), "--out", str(tmp_path / "video")]
    arguments += ["--num-frames", "4", "--method", "adapter", "--num-classes", "5"]
    assert main(arguments) == 0
    assert "boring video: exact" in capsys.readouterr().out
