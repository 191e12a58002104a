"""`videopipe export`, as a user types it: what it prints, and every message."""

from collections.abc import Callable
from pathlib import Path

import pytest

from videopipe.cli import main
from videopipe.export import file_formats


def export(model: Path | str, out: Path, *arguments: str, format: str = "pt2") -> int:
    return main(["export", str(model), "--format", format, "--out", str(out), *arguments])


@pytest.fixture
def images(tmp_path: Path, make_tiny_model: Callable[..., Path]) -> Path:
    return make_tiny_model(tmp_path / "2d", ndim=2)


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
    assert "--tolerance is -1; expected more than 0" in message
    assert "expected a name that ends in .pt2" in message


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
