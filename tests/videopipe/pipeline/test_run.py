"""Results are made once, whole, and kept; every way of stopping is explained."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pretrained_2d.errors import CheckpointError
from videopipe.errors import DataError, StageError
from videopipe.pipeline.jobs import Pipeline
from videopipe.pipeline.plan import plan_jobs
from videopipe.pipeline.results import Results
from videopipe.pipeline.run import run_jobs
from videopipe.pipeline.stage import Inputs, Stage, Summary

Load = Callable[..., Pipeline]
Stages = dict[str, Stage[Any]]

TEXT = """\
name: p
stages:
  clips:  {use: read, config: {words: some words}}
  model:  {use: fit, inputs: {clips: clips}, matrix: {rule: [i3d, s4nd]}}
  scores: {use: score, inputs: {model: model}}
  table:  {use: table, inputs: {scores: scores}}
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def states(pipeline: Pipeline, runs: Path, **options: Any) -> dict[str, str]:
    return {o.job.label: o.state for o in run_jobs(pipeline.jobs, runs, **options)}


def actions(pipeline: Pipeline, runs: Path, **options: Any) -> dict[str, tuple[str, ...]]:
    plan = plan_jobs(pipeline.jobs, Results(runs), **options)
    return {planned.job.label: (planned.action, *planned.reasons) for planned in plan}


def test_a_pipeline_runs_once_and_is_answered_from_its_results(load: Load, runs: Path) -> None:
    first = run_jobs(load(TEXT).jobs, runs)
    assert {outcome.state for outcome in first} == {"done"}
    table = first[-1].folder
    assert table.name == f"table-{first[-1].job.fingerprint}"
    assert (table / "table.txt").read_text() == (
        "scores {'rule': 'i3d'} SOME WORDS I3D 3\nscores {'rule': 's4nd'} SOME WORDS S4ND 3"
    )
    again = run_jobs(load(TEXT).jobs, runs)
    assert {outcome.state for outcome in again} == {"cached"}
    assert [o.summary for o in again] == [o.summary for o in first]


def test_a_result_says_how_it_was_made(load: Load, runs: Path) -> None:
    outcome = run_jobs(load(TEXT).jobs, runs)[1]
    record = json.loads((outcome.folder / "stage.json").read_text())
    assert record["stage"] == "model"
    assert record["use"] == "fit"
    assert record["variant"] == {"rule": "i3d"}
    assert record["config"]["optimiser"] == {"lr": 1e-3, "betas": [0.9, 0.999]}
    assert record["inputs"] == {"clips": [outcome.job.inputs["clips"][0].folder_name]}
    assert record["summary"] == {"length": 10, "rate": 1e-3}
    assert record["attempts"] == 1
    assert not list(runs.glob("*.partial"))


def test_only_what_changed_runs_again(load: Load, runs: Path) -> None:
    states(load(TEXT), runs)
    assert states(load(TEXT, "model.workers=9"), runs) == dict.fromkeys(
        states(load(TEXT), runs), "cached"
    )
    changed = states(load(TEXT, "model.matrix.rule=[i3d, s3d]"), runs)
    assert changed == {
        "clips": "cached",
        "model (rule=i3d)": "cached",
        "model (rule=s3d)": "done",
        "scores (rule=i3d)": "cached",
        "scores (rule=s3d)": "done",
        "table": "done",
    }


def test_redo_makes_a_stage_and_its_dependants_again(load: Load, runs: Path) -> None:
    states(load(TEXT), runs)
    again = states(load(TEXT), runs, redo=["scores"])
    assert [again[label] for label in again] == ["cached"] * 3 + ["done"] * 3


def test_plan_gives_the_key_with_old_and_new_value(
    load: Load, runs: Path, tmp_path: Path, stages: Stages
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("a")
    text = TEXT.replace("words: some words", "words: some words, data: data")
    assert actions(load(text), runs)["clips"] == ("run", "never run")
    states(load(text), runs)
    assert set(actions(load(text), runs).values()) == {("cached",)}
    assert actions(load(text, "model.optimiser.lr=0.5", "model.epochs=4"), runs) == {
        "clips": ("cached",),
        "model (rule=i3d)": ("run", "epochs: 3 -> 4", "optimiser.lr: 0.001 -> 0.5"),
        "model (rule=s4nd)": ("run", "epochs: 3 -> 4", "optimiser.lr: 0.001 -> 0.5"),
        "scores (rule=i3d)": ("run", "input model: another result of model"),
        "scores (rule=s4nd)": ("run", "input model: another result of model"),
        "table": ("run", "input scores: another result of scores"),
    }
    assert actions(load(text), runs, redo=["model"])["table"] == (
        "run",
        "depends on a stage that is made again",
    )
    stages["fit"] = dataclasses.replace(stages["fit"], version=2)
    assert actions(load(text), runs)["model (rule=i3d)"] == ("run", "version of fit: 1 -> 2")


def test_plan_compares_with_the_newest_of_equally_similar_results(load: Load, runs: Path) -> None:
    for epochs in (3, 7, 5):
        states(load(TEXT, f"model.epochs={epochs}"), runs)
    planned = actions(load(TEXT, "model.epochs=4"), runs)
    assert planned["model (rule=i3d)"] == ("run", "epochs: 5 -> 4")


def test_plan_notices_changed_data(load: Load, runs: Path, tmp_path: Path) -> None:
    from videopipe.pipeline.fingerprint import digest_of_files

    (tmp_path / "data").mkdir()
    text = TEXT.replace("words: some words", "words: some words, data: data")
    states(load(text), runs)
    (tmp_path / "data" / "new").write_text("new")
    digest_of_files.cache_clear()
    assert actions(load(text), runs)["clips"] == (
        "run",
        f"data: the files below {tmp_path}/data have changed",
    )


class Flaky:
    """A stage that writes a file and then raises a given exception."""

    def __init__(self, error: BaseException) -> None:
        self.error: BaseException | None = error
        self.found: list[str] = []

    def __call__(self, config: Any, inputs: Inputs, out: Path) -> Summary:
        self.found = sorted(path.name for path in out.iterdir())
        (out / "half.txt").write_text("half")
        if self.error is not None:
            raise self.error
        (out / "score.txt").write_text("whole")
        return {}


def test_a_failed_stage_keeps_finished_work_and_resumes(
    load: Load, runs: Path, stages: Stages
) -> None:
    flaky = Flaky(DataError("videos/a.avi: broken"))
    stages["score"] = dataclasses.replace(stages["score"], run=flaky)
    with pytest.raises(StageError) as caught:
        run_jobs(load(TEXT).jobs, runs)
    assert str(caught.value) == (
        "stage 'scores (rule=i3d)' failed: videos/a.avi: broken\n"
        "Finished results are kept; the same command resumes."
    )
    assert actions(load(TEXT), runs) == {
        "clips": ("cached",),
        "model (rule=i3d)": ("cached",),
        "model (rule=s4nd)": ("cached",),
        "scores (rule=i3d)": ("resume", "interrupted once"),
        "scores (rule=s4nd)": ("run", "never run with rule=s4nd"),
        "table": ("run", "never run"),
    }
    flaky.error = None
    again = states(load(TEXT), runs)
    assert again["model (rule=i3d)"] == "cached"
    assert again["scores (rule=i3d)"] == "resumed"
    assert again["table"] == "done"


def test_a_stage_finds_its_unfinished_work(load: Load, runs: Path, stages: Stages) -> None:
    flaky = Flaky(DataError("broken"))
    stages["score"] = dataclasses.replace(stages["score"], run=flaky)
    for expected in (["started.json"], ["half.txt", "started.json"]):
        with pytest.raises(StageError):
            run_jobs(load(TEXT).jobs, runs)
        assert flaky.found == expected


KEPT = "Finished results are kept; the same command resumes."


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (CheckpointError("no weights"), StageError, "stage 'scores (rule=i3d)' failed: no weights"),
        (KeyboardInterrupt(), KeyboardInterrupt, "Interrupted in stage 'scores (rule=i3d)'."),
        (
            PermissionError(13, "Permission denied", "/x/y"),
            StageError,
            "stage 'scores (rule=i3d)': Permission denied: '/x/y'. Finished",
        ),
    ],
)
def test_every_way_of_stopping_names_the_stage_and_how_to_resume(
    load: Load,
    runs: Path,
    stages: Stages,
    error: BaseException,
    kind: type[BaseException],
    message: str,
) -> None:
    stages["score"] = dataclasses.replace(stages["score"], run=Flaky(error))
    with pytest.raises(kind) as caught:
        run_jobs(load(TEXT).jobs, runs)
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(KEPT)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_and_leaves_no_complete_result(
    load: Load, runs: Path, stages: Stages
) -> None:
    def fill(config: Any, inputs: Inputs, out: Path) -> Summary:
        try:
            Path("/dev/full").write_text("more than fits")
        except OSError as cause:  # as libraries do it
            raise RuntimeError("could not save the model") from cause
        return {}

    stages["score"] = dataclasses.replace(stages["score"], run=fill)
    with pytest.raises(StageError) as caught:
        run_jobs(load(TEXT).jobs, runs)
    assert str(caught.value).startswith("stage 'scores (rule=i3d)': the disk is full (")
    assert "--runs DIR" in str(caught.value)
    assert not list(runs.glob("scores-*/stage.json"))


def test_a_fault_of_a_stage_passes_through_with_its_place(
    load: Load, runs: Path, stages: Stages
) -> None:
    fault = ZeroDivisionError("division by zero")
    stages["score"] = dataclasses.replace(stages["score"], run=Flaky(fault))
    with pytest.raises(ZeroDivisionError) as caught:
        run_jobs(load(TEXT).jobs, runs)
    assert caught.value is fault
    assert fault.__notes__[0].startswith("in stage 'scores (rule=i3d)', result ")


def test_redo_keeps_the_old_result_until_the_new_one_is_whole(
    load: Load, runs: Path, stages: Stages
) -> None:
    whole = run_jobs(load(TEXT).jobs, runs)[3].folder / "score.txt"
    before = whole.read_text()
    stages["score"] = dataclasses.replace(stages["score"], run=Flaky(DataError("broken")))
    with pytest.raises(StageError):
        run_jobs(load(TEXT).jobs, runs, redo=["scores"])
    assert whole.read_text() == before
