"""`videopipe evaluate` gives the numbers of the stage, resumes, and explains its errors."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pretrained_2d.checkpoints.folder import save_checkpoint
from tests.processes import kill, start_paused
from videopipe.cli import main
from videopipe.evaluation.score_table import read_metrics, read_scores
from videopipe.models import load_model
from videopipe.pipeline.stage import Inputs, Result
from videopipe.prediction.table.parts import read_journal
from videopipe.scoring.settings import Execution
from videopipe.stages.evaluate import EvaluateConfig, run

QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> str:
    return str(tiny_model)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, noisy_video: Callable[..., Path]) -> Path:
    """Two test videos of each of two classes, and one training video."""
    folder = tmp_path_factory.mktemp("data")
    for seed in range(4):
        noisy_video(folder / "test" / ("left", "up")[seed % 2] / f"{seed}.mp4", seed)
    noisy_video(folder / "train" / "left" / "5.mp4", 5)
    return folder


def test_the_command_and_the_stage_give_the_same_numbers_and_a_page(
    model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["evaluate", model, str(data), "--out", str(out), *QUICK]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("                     %   95 % interval\ntop-1")
    assert "4 videos of 4 recordings" in printed.out
    assert (out / "table.txt").read_text() == printed.out
    assert "Evaluation of tiny" in (out / "report" / "report.html").read_text()
    assert not (out / "scores.parts").exists()
    assert main(["check", str(data), "--header", "--out", str(tmp_path / "clips")]) == 0
    given = {"model": Path(model), "clips": tmp_path / "clips"}
    (tmp_path / "stage").mkdir()
    run(
        EvaluateConfig(execution=Execution(device="cpu", workers=1, threads=1)),
        Inputs({name: [Result(folder, name)] for name, folder in given.items()}),
        tmp_path / "stage",
    )
    np.testing.assert_array_equal(read_scores(out).scores, read_scores(tmp_path / "stage").scores)
    assert read_metrics(out)["top1"] == read_metrics(tmp_path / "stage")["top1"]
    capsys.readouterr()

    before = (out / "metrics.json").stat().st_mtime_ns
    assert main(command) == 0
    again = capsys.readouterr()
    assert again.out == printed.out
    assert "is complete: nothing is left to do" in again.err
    assert (out / "metrics.json").stat().st_mtime_ns == before
    assert main([*command, "--split", "all"]) == 1
    message = "holds an evaluation of another model, data or settings; name a new folder"
    assert message in capsys.readouterr().err
    assert main([*command, "--split", "all", "--overwrite"]) == 0
    assert read_metrics(out)["videos"] == 5


@pytest.mark.slow
def test_a_killed_evaluation_resumes(model: str, data: Path, tmp_path: Path) -> None:
    videos, out = Path(shutil.copytree(data, tmp_path / "videos")), tmp_path / "out"
    rows = [f"{path},{path.parent.name},test\n" for path in sorted(videos.glob("test/*/*"))]
    (tmp_path / "list.csv").write_text("path,label,split\n" + "".join(rows))
    command = ["evaluate", model, str(tmp_path / "list.csv"), "--out", str(out), *QUICK]
    kill(start_paused("videopipe.prediction.table.parts:PartWriter.add", 2, command))
    finished = [row for path in out.glob("*/*.journal") for row in read_journal(path)]
    assert len(finished) == 2
    for row in finished:  # a video that is decoded again will be missing
        Path(row["path"]).rename(f"{row['path']}.away")
    assert main(command) == 0
    assert read_metrics(out)["failed"] == 0


def test_a_video_that_became_readable_is_scored_by_the_same_command(
    model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    videos, out = Path(shutil.copytree(data, tmp_path / "videos")), tmp_path / "out"
    broken = next(videos.glob("test/left/*.mp4"))
    broken.rename(tmp_path / "away")
    broken.write_bytes(b"no video")
    command = ["evaluate", model, str(videos), "--out", str(out), *QUICK]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert "1 of 4 videos have no scores, more than max_failed (0.05 of them)" in error
    assert main([*command, "--max-failed", "0.5"]) == 0
    assert "; 1 could not be read and count as mistakes" in capsys.readouterr().out
    (tmp_path / "away").rename(broken)
    assert main(command) == 0
    assert read_metrics(out)["failed"] == 0


def test_what_cannot_be_evaluated_is_explained(
    model: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(folder: Path | str, *options: str, code: int = 1, checkpoint: str = model) -> str:
        out = str(tmp_path / "out")
        assert main(["evaluate", checkpoint, str(folder), "--out", out, *options]) == code
        return capsys.readouterr().err

    other = tmp_path / "other"
    shutil.copytree(data / "test" / "left", other / "waving")
    shutil.copytree(data / "test" / "left", other / "left")
    assert "there are no labelled test videos, only 4 train" in error(other)
    assert "take every labelled video with --split all" in error(other)
    message = error(other, "--split", "all")
    assert "1 of the 2 classes of the videos are not classes of the model: waving." in message
    assert "Its 4 classes are left, right, up, down." in message
    assert "no video has a label" in error(data / "test" / "left", "--split", "all")
    assert "no such file or folder" in error(tmp_path / "nowhere")
    assert "clips is 0; expected 1 or more" in error(data, "--clips", "0", code=2)
    assert "--max-failed is 2.0" in error(data, "--max-failed", "2", code=2)
    assert "config.json" in error(data, checkpoint=str(data))
    (tmp_path / "file").touch()
    assert main(["evaluate", model, str(data), "--out", str(tmp_path / "file")]) == 1

    network, card = load_model(model)
    save_checkpoint(tmp_path / "nameless", network, replace(card, labels=None))
    message = error(data, checkpoint=str(tmp_path / "nameless"))
    assert "distinguishes 4 classes and has no names for them; the data has 2 classes" in message
