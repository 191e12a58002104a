"""The demo runs from an empty folder to a report; a second run is cached."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from videopipe.cli import main

# Small enough for the default suite: all stages of the demo run, with little training.
TINY = [
    "data.train_videos=4",
    "data.val_videos=2",
    "data.test_videos=2",
    "data.unseen_videos=3",
    "data.train_images=8",
    "data.val_images=4",
    "data.motions=[left, right]",
    "backbone.recipe.epochs=1",
    "backbone.recipe.batch_size=8",
    "model.recipe.epochs=1",
    "model.recipe.batch_size=4",
]
STAGES = ["data", "backbone", "inflated", "clips", "model", "scores", "predictions"]


@pytest.mark.slow
def test_every_stage_of_the_demo_runs_and_a_second_run_is_cached(
    tmp_path: Path,
    browse: Callable[[Path, int], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "run",
        "demo",
        "--progress",
        "stages",
        "--runs",
        "runs",
        *(f"--set={override}" for override in TINY),
    ]
    assert main(words) == 0
    first = capsys.readouterr()
    folders = dict(line.split("\t") for line in first.out.splitlines())
    assert list(folders) == STAGES
    rows = (tmp_path / folders["predictions"] / "predictions.csv").read_text().splitlines()
    assert len(rows) == 1 + 3
    assert (tmp_path / "runs/demo/report/report.html").is_file()
    assert "Look at:" in first.err
    assert re.search(r"scores: top-1 [0-9.]+% of \d+ videos, 95 % interval", first.err)
    said = first.err.split("\n\n")[0].splitlines()
    assert len(said) == 2 * len(STAGES) + 1  # a sentence and an outcome of each, and the time
    assert said[0].startswith("[1/7] data: Generate a small data set")
    assert re.fullmatch(r" {6}19 videos of 2 motions and 48 images \(\d:\d\d\)", said[1])
    assert re.fullmatch(
        r" {6}2 steps on 8 videos, accuracy [0-9.]+% on 4 validation videos \(\d:\d\d\)", said[9]
    )
    assert re.fullmatch(r" {6}3 rows for 3 videos, 0 failed \(\d:\d\d\)", said[13])
    assert "Try next, with your own files:" in first.err
    log = json.loads((tmp_path / "runs/demo/run.json").read_text())
    assert {job["state"] for job in log["jobs"]} == {"done"}

    assert main(words) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert f"all {len(STAGES)} results were there already (cached)" in again.err

    for width in (500, 1400):
        found = browse(tmp_path / "runs/demo/report/report.html", width)
        assert found["errors"] == []
        assert found["overflow"] == 0
        assert found["descending"] == found["ascending"][::-1] != found["ascending"]
        assert len(found["filtered"]) >= 1
