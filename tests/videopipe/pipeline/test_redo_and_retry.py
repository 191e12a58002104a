"""--redo resumes when it was interrupted; failed items are retried; dependants follow both."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pretrained_2d.setting import setting
from videopipe.errors import StageError
from videopipe.pipeline.jobs import Pipeline
from videopipe.pipeline.plan import plan_jobs
from videopipe.pipeline.results import Results
from videopipe.pipeline.run import run_jobs
from videopipe.pipeline.stage import Failure, Inputs, Kind, Stage, Summary

Load = Callable[..., Pipeline]
Stages = dict[str, Stage[Any]]
TEXT = """\
name: p
stages:
  clips:  {use: read, config: {words: "1 2 30"}}
  model:  {use: fit, inputs: {clips: clips}}
  scores: {use: score, inputs: {model: model}}
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def calls(stages: Stages) -> list[str]:
    """Each stage notes when it runs; `interrupt:NAME` in the list makes that stage raise."""
    noted: list[str] = []

    def noting(name: str, run: Any) -> Any:
        def noted_run(config: Any, inputs: Inputs, out: Path) -> Summary:
            noted.append(f"{name} resumes" if (out / "half").exists() else name)
            (out / "half").touch()
            if f"interrupt:{name}" in noted:
                raise KeyboardInterrupt
            summary: Summary = run(config, inputs, out)
            return summary

        return noted_run

    for name, stage in stages.items():
        stages[name] = dataclasses.replace(stage, run=noting(name, stage.run))
    return noted


def states(pipeline: Pipeline, runs: Path, **options: Any) -> dict[str, str]:
    return {o.job.label: o.state for o in run_jobs(pipeline.jobs, runs, **options)}


def actions(pipeline: Pipeline, runs: Path, **options: Any) -> dict[str, str]:
    plan = plan_jobs(pipeline.jobs, Results(runs), **options)
    return {planned.job.label: planned.action for planned in plan}


def test_an_interrupted_redo_resumes_in_its_stage_and_after_its_finished_stages(
    load: Load, runs: Path, calls: list[str]
) -> None:
    states(load(TEXT), runs)
    for interrupted, before in (("read", ["read"]), ("fit", ["read resumes", "fit"])):
        calls[:] = [f"interrupt:{interrupted}"]
        with pytest.raises(KeyboardInterrupt):
            states(load(TEXT), runs, redo=["clips"])
        assert calls[1:] == before
    assert actions(load(TEXT), runs, redo=["clips"]) == {
        "clips": "cached", "model": "resume", "scores": "run",
    }  # fmt: skip
    calls.clear()
    again = states(load(TEXT), runs, redo=["clips"])
    assert again == {"clips": "cached", "model": "resumed", "scores": "done"}
    assert calls == ["fit resumes", "score"]


def test_dependants_of_an_interrupted_redo_are_not_answered_from_their_old_results(
    load: Load, runs: Path, calls: list[str]
) -> None:
    states(load(TEXT), runs)
    calls[:] = ["interrupt:fit"]
    with pytest.raises(KeyboardInterrupt):
        states(load(TEXT), runs, redo=["clips"])
    calls.clear()
    assert states(load(TEXT), runs)["model"] == "resumed"
    (record,) = runs.glob("model-*/stage.json")
    assert json.loads(record.read_text())["attempts"] == 2


def test_a_finished_redo_is_forgotten(load: Load, runs: Path, calls: list[str]) -> None:
    for _ in range(3):
        calls.clear()
        states(load(TEXT), runs, redo=["clips"])
        assert calls[0] == "read"
    assert list((runs / ".redo").iterdir()) == []
    states(load(TEXT), runs, redo=["clips", "model", "scores"])  # all jobs there are
    assert list((runs / ".redo").iterdir()) == []


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlowConfig:
    words: str = ""
    timeout_seconds: float | None = setting(3.0, "per item", unit="seconds", limit=True)


class Slow:
    """Reads items that take their value in seconds; items above a limit fail."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def run(self, config: SlowConfig, inputs: Inputs, out: Path) -> Summary:
        self.read = [item for item in config.words.split() if not (out / item).exists()]
        limit = config.timeout_seconds
        for item in self.read:
            if limit is None or float(item) <= limit:
                (out / item).write_text(item)
        done = sorted(path.name for path in out.iterdir() if path.name.isdigit())
        (out / "failed.txt").write_text("\n".join(set(config.words.split()) - set(done)))
        (out / "words.txt").write_text(" ".join(done))
        return {}

    @staticmethod
    def failures(folder: Path) -> Sequence[Failure]:
        items = (folder / "failed.txt").read_text().split()
        return [Failure(item, "no answer in time") for item in items]

    @staticmethod
    def keep(_config: SlowConfig, _inputs: Inputs, folder: Path, out: Path) -> None:
        for path in folder.iterdir():
            if path.name.isdigit():
                (out / path.name).write_bytes(path.read_bytes())


@pytest.fixture
def slow(stages: Stages) -> Slow:
    reader = Slow()
    stages["read"] = Stage(
        SlowConfig, reader.run, 1, Kind.CLIPS, failures=reader.failures, keep=reader.keep
    )
    return reader


def test_a_result_with_failures_is_shown_and_only_these_are_retried(
    load: Load, runs: Path, slow: Slow, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run_jobs(load(TEXT).jobs, runs)[0]
    assert (outcome.failed, slow.read) == (1, ["1", "2", "30"])
    (planned, *_) = plan_jobs(load(TEXT).jobs, Results(runs))
    assert planned.action == "cached"
    assert planned.note == "1 failed (30: no answer in time); --retry-failed retries them"
    capsys.readouterr()
    assert set(states(load(TEXT), runs).values()) == {"cached"}
    assert "1 failed" in capsys.readouterr().err
    assert actions(load(TEXT), runs, retry_failed=True)["clips"] == "retry"
    again = states(load(TEXT), runs, retry_failed=True)
    assert slow.read == ["30"]
    assert again == {"clips": "done", "model": "cached", "scores": "cached"}, "it failed again"


@pytest.mark.parametrize("limit", ["60", "null"])
def test_a_raised_limit_retries_what_failed_and_dependants_follow(
    load: Load, runs: Path, slow: Slow, limit: str
) -> None:
    states(load(TEXT), runs)
    raised = load(TEXT, f"clips.timeout_seconds={limit}")
    (planned, *_) = plan_jobs(raised.jobs, Results(runs))
    value = None if limit == "null" else float(limit)
    assert planned.reasons[1:] == (f"timeout_seconds: 3.0 -> {value}",)
    assert set(states(raised, runs).values()) == {"done"}
    assert slow.read == ["30"]
    (model,) = runs.glob("model-*/model.txt")
    assert model.read_text() == "1 2 30 s4nd 3"
    assert set(states(raised, runs).values()) == {"cached"}
    assert set(states(load(TEXT), runs).values()) == {"cached"}, "a lower limit retries nothing"


def test_results_of_earlier_versions_are_cached(load: Load, runs: Path) -> None:
    states(load(TEXT), runs)
    for file in runs.glob("*/stage.json"):
        record = json.loads(file.read_text())
        for key in ("revision", "input_revisions", "failed", "first_failures", "redo"):
            del record[key]
        file.write_text(json.dumps(record))
    assert set(states(load(TEXT), runs).values()) == {"cached"}


def test_an_impossible_stage_is_found_before_an_expensive_one_runs(
    load: Load, runs: Path, stages: Stages, calls: list[str]
) -> None:
    def check(config: Any, inputs: Inputs) -> None:
        from videopipe.errors import DataError

        words = inputs.result("model").inputs["clips"] / "words.txt"  # type: ignore[index]
        if words.is_file():
            raise DataError(f"no test words in {words.read_text()}")

    stages["score"] = dataclasses.replace(stages["score"], check=check)
    with pytest.raises(StageError, match="stage 'scores' cannot succeed: no test words in 1 2 30"):
        states(load(TEXT), runs)
    assert calls == ["read"]


def test_a_killed_redo_of_generated_data_keeps_its_files(tmp_path: Path) -> None:
    """With the program itself, interrupted while it writes the files of the first stage."""
    command = [sys.executable, "-m", "videopipe", "run", "demo", "--until", "data", "--runs"]
    command += [str(tmp_path), "--set", "data.train_videos=1", "--set", "data.train_images=40"]
    subprocess.run(command, check=True, capture_output=True)
    counts = []
    for _ in range(2):
        process = subprocess.Popen([*command, "--redo", "data"], stderr=subprocess.PIPE)
        before = len(list(tmp_path.glob("*.partial/images/train/*/*.png")))
        while len(list(tmp_path.glob("*.partial/images/train/*/*.png"))) < before + 20:
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        counts.append(len(list(tmp_path.glob("*.partial/images/train/*/*.png"))))
    assert counts[1] >= counts[0] + 20
