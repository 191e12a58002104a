"""`videopipe inflate`, as a user types it."""

from pathlib import Path

import pytest

from pretrained_2d.checkpoints.folder import read_card
from videopipe.cli import main


@pytest.fixture
def backbone(isotropic_backbone: Path) -> str:
    return str(isotropic_backbone)


def inflate(backbone: str, out: Path, *arguments: str) -> int:
    return main(["inflate", backbone, "--out", str(out), "--num-frames", "4", *arguments])


@pytest.mark.parametrize("method", ["s4nd", "i3d", "s3d", "center"])
def test_it_writes_and_says_what_it_found(
    backbone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    out = tmp_path / "out"
    assert inflate(backbone, out, "--method", method, "--layer-table") == 0
    printed = capsys.readouterr().out
    assert "boring video: exact" in printed
    assert "| layer | status |" in printed
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "model.safetensors",
        "inflation.json",
        "inflation.md",
    }
    assert read_card(out).labels == ("x", "y", "z")


def test_options_reach_the_network(backbone: str, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("walk\nrun\n\n")
    arguments = ["--length", "none", "--copies", "none", "--basis", "legs", "--no-bidirectional"]
    labels = ["--labels", str(tmp_path / "labels.txt")]
    assert inflate(backbone, tmp_path / "out", *arguments, *labels, "--clip-seconds", "3") == 0
    card = read_card(tmp_path / "out")
    assert card.labels == ("walk", "run")
    assert card.clip_seconds == 3
    axis = card.options["time_axis"]
    assert axis["length"] is None
    assert axis["copies"] == "channels"
    assert axis["basis"] == "legs"
    assert axis["bidirectional"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--length", "0"], 2, "length must be above 0 steps of time, got 0"),
        (["--temporal-patch", "9"], 2, "num_frames (4) must be at least temporal_patch (9)"),
        (["--layers", "no.such"], 1, "layers='no.such' matches no convolution or attention"),
        (["--labels", "nofile"], 1, "labels: 'nofile' is neither a file nor a list"),
        (["--num-classes", "0"], 1, "num_classes must be at least 1, got 0"),
    ],
)
def test_bad_arguments_write_nothing(
    backbone: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    assert inflate(backbone, tmp_path / "out", *arguments) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_folders_are_not_overwritten_by_accident(
    backbone: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("keep me")
    assert inflate(backbone, out) == 1
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    assert inflate(backbone, out, "--overwrite") == 0
    assert (out / "thesis.txt").read_text() == "keep me"
    assert inflate(backbone, Path(backbone)) == 1
    assert inflate(str(tmp_path / "nowhere"), tmp_path / "new") == 1
    assert "does not exist" in capsys.readouterr().err
