"""The demo, from nothing to a report, and once more from its results."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# Small enough for every change: all stages of the demo run, none learns much.
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


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "videopipe", "run", "demo", "--runs", "runs", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_every_stage_of_the_demo_runs_and_is_answered_from_its_results(
    tmp_path: Path, browse: Callable[[Path, int], dict[str, Any]]
) -> None:
    tiny = [f"--set={override}" for override in TINY]
    first = run_demo(tmp_path, *tiny)
    assert first.returncode == 0, first.stderr
    folders = dict(line.split("\t") for line in first.stdout.splitlines())
    assert list(folders) == STAGES
    rows = (tmp_path / folders["predictions"] / "predictions.csv").read_text().splitlines()
    assert len(rows) == 1 + 3
    assert (tmp_path / "runs/demo/report/report.html").is_file()
    assert "Look at:" in first.stderr
    assert "Try next:" in first.stderr
    log = json.loads((tmp_path / "runs/demo/run.json").read_text())
    assert {job["state"] for job in log["jobs"]} == {"done"}

    again = run_demo(tmp_path, *tiny)
    assert again.stdout == first.stdout
    assert f"all {len(STAGES)} results were there already (cached)" in again.stderr

    for width in (500, 1400):
        found = browse(tmp_path / "runs/demo/report/report.html", width)
        assert found["errors"] == []
        assert found["overflow"] == 0
        assert found["descending"] == found["ascending"][::-1] != found["ascending"]
        assert len(found["filtered"]) >= 1
