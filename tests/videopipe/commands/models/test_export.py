"""`videopipe export`, as a user types it: what it prints, and every message."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from videopipe.cli import main
from videopipe.export import file_formats


def export(model: Path | str, out: Path, *arguments: str, format: str = "pt2") -> int:
    return main(["export", str(model), "--format", format, "--out", str(out), *arguments])


@pytest.fixture
def images(tmp_path: Path, make_tiny_model: Callable[..., Path]) -> Path:
    return make_tiny_model(tmp_path / "2d", ndim=2)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    options = {"num_classes": 0}
    network = build("timm/test_resnet", **options)
    card = ModelCard(
        architecture="timm/test_resnet",
        options=options,
        preprocessing=Preprocessing(image_size=32),
    )
    save_checkpoint(tmp_path / "encoder", network, card)
    return tmp_path / "encoder"


def test_it_ends_with_its_proof(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.pt2"
    assert export(images, out, "--input", "uint8") == 0
    printed, errors = capsys.readouterr()
    assert errors == ""
    lines = printed.splitlines()
    assert lines[0] == "input images: uint8 batch × 32 × 32 × 3 (batch, height, width, channels)"
    assert lines[2] == "no 3D convolutions, tensors of rank 4 at most"
    assert lines[3].startswith(f"compared with {images}: largest relative difference ")
    assert lines[3].endswith("(tolerance 1e-04), same top-1 on 4 of 4 generated clips")
    assert lines[4] == f"written: {out} and {out}.json"
    before = out.read_bytes()
    assert export(images, out) == 1
    assert (
        f"Error: --out {out} exists; name a new file, or add --overwrite" in capsys.readouterr().err
    )
    assert out.read_bytes() == before


def test_the_output_of_an_encoder_is_features(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "model.pt2"
    assert export(encoder, out) == 0
    assert "(tolerance 1e-04), 4 generated clips" in capsys.readouterr().out
    described = json.loads((tmp_path / "model.pt2.json").read_text(encoding="utf-8"))
    assert described["output"] == {"name": "features", "axes": ["batch", "features"]}
    assert described["agreement"]["same_top1"] is None


@pytest.mark.slow
def test_an_onnx_file_of_an_encoder_names_its_output_features(
    encoder: Path, tmp_path: Path
) -> None:
    import onnxruntime

    assert export(encoder, tmp_path / "model.onnx", format="onnx") == 0
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert [output.name for output in session.get_outputs()] == ["features"]


def test_the_hub_card_of_an_encoder_promises_no_classes(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--evaluation", str(tmp_path / "scores")]
    assert export(encoder, tmp_path / "hub", *arguments, format="hub") == 1
    assert "--evaluation is for networks with classes" in capsys.readouterr().err
    assert export(encoder, tmp_path / "hub", format="hub") == 0
    text = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: image-feature-extraction" in text
    assert "videopipe embed hub videos/" in text
    assert "classif" not in text.replace("no classifying layer", "")


def test_a_file_that_does_not_agree_is_not_written(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "model.pt2"
    assert export(images, out, "--tolerance", "1e-30") == 1
    message = capsys.readouterr().err
    assert f"the exported pt2 file does not agree with {images}" in message
    assert f"{out} was not written; raise --tolerance if this difference" in message
    assert not list(out.parent.iterdir())


def test_wrong_arguments_are_named_all_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--batch-size", "0", "--tolerance", "-1"]
    assert export(tmp_path, tmp_path / "model.onnx", *arguments) == 2
    message = capsys.readouterr().err
    assert "--batch-size is 0; expected 1 or more" in message
    assert "--tolerance is -1; expected more than 0 and less than 1" in message
    assert "expected a name that ends in .pt2" in message
    assert export(tmp_path, tmp_path / "model.pt2", "--tolerance", "inf") == 2
    assert "--tolerance is inf; expected more than 0 and less than 1" in capsys.readouterr().err


def test_options_of_a_graph_are_refused_for_a_hub_folder(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--input", "uint8", "--batch-size", "2", "--videos", "x", "--tolerance", "1"]
    assert export(images, tmp_path / "hub", *options, "--overwrite", format="hub") == 2
    message = capsys.readouterr().err
    for name in ("--input", "--batch-size", "--videos", "--tolerance", "--overwrite"):
        assert f"{name} is for --format onnx and pt2" in message
    assert not (tmp_path / "hub").exists()


def test_out_must_be_a_file_in_a_folder_that_can_be_written(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.pt2").mkdir()
    assert export(images, tmp_path / "folder.pt2") == 1
    assert "is a folder; name a file" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert export(images, tmp_path / "file" / "model.pt2") == 1
    assert "cannot be written (File exists); name a file in a" in capsys.readouterr().err


def test_a_missing_library_is_named(
    images: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_formats, "ONNX_LIBRARIES", ("onnx", "onnx_of_tomorrow"))
    assert export(images, tmp_path / "model.onnx", format="onnx") == 1
    assert capsys.readouterr().err == (
        "Error: --format onnx needs onnx_of_tomorrow: pip install 'videopipe[export]' "
        "(--format pt2 needs torch only)\n"
    )


def test_a_model_or_a_video_that_is_missing_is_named(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(tmp_path / "gone", tmp_path / "model.pt2") == 1
    assert (
        f"{tmp_path / 'gone'} does not exist; name a checkpoint folder, with"
        in capsys.readouterr().err
    )
    assert export(images, tmp_path / "model.pt2", "--videos", str(tmp_path / "gone.mp4")) == 1
    message = capsys.readouterr().err
    assert "gone.mp4" in message
    assert not (tmp_path / "model.pt2").exists()
