"""Results that are listed, removed and kept."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT
from videopipe.cli import main
from videopipe.errors import DataError
from videopipe.pipeline.jobs import Pipeline
from videopipe.pipeline.results import Results
from videopipe.pipeline.run import run_jobs
from videopipe.pipeline.run_log import RunLog
from videopipe.pipeline.usage import list_results, registered, remove
from videopipe.system.lock import FileLock

Load = Callable[..., Pipeline]
YAML = """
name: {name}
stages:
  clips: {{use: read, config: {{words: {words}}}}}
  model: {{use: fit, inputs: {{clips: clips}}, config: {{epochs: {epochs}}}}}
"""
RUNS = Path("runs")


@pytest.fixture
def make(load: Load) -> Callable[..., Pipeline]:
    """Runs a pipeline of two stages in ./runs."""

    def run(name: str = "p", words: str = "a", epochs: int = 1) -> Pipeline:
        pipeline = load(YAML.format(name=name, words=words, epochs=epochs))
        log = RunLog(pipeline, pipeline.jobs, RUNS)
        log.begin()
        run_jobs(pipeline.jobs, RUNS, on_state=log.note)
        log.finish()
        return pipeline

    return run


def names(pipeline: Pipeline) -> list[str]:
    return [job.folder_name for job in pipeline.jobs]


def kept() -> set[str]:
    return {path.name for path in RUNS.iterdir() if not path.name.startswith(".")}


def test_results_of_the_last_run_of_every_pipeline_are_needed(
    make: Callable[..., Pipeline], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, other = make(epochs=1), make(epochs=2), make("q", epochs=3)
    found = {result.folder.name: result for result in list_results(RUNS)}
    clips, model = names(new)
    assert found[clips].pipelines == ("p", "q")
    assert found[model].pipelines == ("p",)
    assert found[names(other)[1]].pipelines == ("q",)
    assert not found[names(old)[1]].needed
    files = [path for path in (RUNS / model).rglob("*") if path.is_file()]
    assert found[model].size_bytes == sum(path.stat().st_size for path in files)

    capsys.readouterr()
    assert main(["runs", "--json", "--unneeded"]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["folder"], row["needed"]) == (f"runs/{names(old)[1]}", False)
    assert main(["runs"]) == 0
    assert "4 results, " in (text := capsys.readouterr().out)
    assert "nothing needs 1 of them" in text
    before = kept()
    assert main(["prune"]) == 0
    assert "would be removed; add --yes" in capsys.readouterr().out
    assert kept() == before
    assert main(["prune", "--yes", "--older-than-days", "1"]) == 0
    assert kept() == before
    assert main(["prune", "--yes"]) == 0
    assert before - kept() == {names(old)[1]}
    assert main(["prune", "--yes"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_an_interrupted_result_stays_while_its_pipeline_does(
    make: Callable[..., Pipeline], load: Load
) -> None:
    pipeline = make()
    results = Results(RUNS)
    results.begin(pipeline.jobs[1], {"redo": "x"})
    assert all(result.needed for result in list_results(RUNS))
    waiting = load(YAML.format(name="w", words="later", epochs=9))
    results.begin(waiting.jobs[0], {})
    (unneeded,) = [result for result in list_results(RUNS) if not result.needed]
    assert (unneeded.folder.name, unneeded.complete) == (f"{names(waiting)[0]}.partial", False)
    RunLog(waiting, waiting.jobs, RUNS).begin()
    assert all(result.needed for result in list_results(RUNS))


def test_what_a_process_makes_or_may_read_stays(make: Callable[..., Pipeline]) -> None:
    old = make(words="old")
    make(words="new")
    clips, model = names(old)
    lock = FileLock(RUNS / ".locks" / model)
    assert lock.try_acquire()  # the model is being made, from the clips
    assert {r.folder.name for r in list_results(RUNS) if r.in_use} == {clips, model}
    assert main(["prune", "--yes"]) == 0
    assert {clips, model} < kept()
    lock.release()
    with registered(RUNS, [clips]):
        unneeded = [result for result in list_results(RUNS) if not result.needed]
        assert [result.folder.name for result in unneeded] == [model]
        assert lock.try_acquire()
        assert not remove(unneeded[0]), "taken between the list and the removal"
        lock.release()
        assert main(["prune", "--yes"]) == 0
        assert clips in kept()
        assert model not in kept()
    assert main(["prune", "--yes"]) == 0
    assert clips not in kept()


def test_prune_counts_what_it_removes_and_not_what_it_keeps(
    make: Callable[..., Pipeline],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from videopipe.commands.results.runs import size_in_words
    from videopipe.pipeline import usage

    old = make(words="old")
    make(words="new")
    clips, model = names(old)
    (RUNS / clips / "large").write_bytes(bytes(5000))
    sizes = {result.folder.name: result.size_bytes for result in list_results(RUNS)}
    lock = FileLock(RUNS / ".locks" / clips)
    original = usage.remove

    def remove_while_taken(result: usage.StoredResult) -> bool:
        assert lock.try_acquire()  # a run takes the clips between the list and the removal
        return original(result)

    monkeypatch.setattr(usage, "remove", remove_while_taken)
    capsys.readouterr()
    assert main(["prune", "--yes"]) == 0
    text = capsys.readouterr().out
    assert f"kept {clips}: a process has begun to use it" in text
    assert text.endswith(f"removed 1 result, {size_in_words(sizes[model])}\n")
    lock.release()


def test_a_killed_run_keeps_no_result_from_being_removed(make: Callable[..., Pipeline]) -> None:
    old = make(words="old")
    make(words="new")
    program = (
        "import os; from pathlib import Path; from videopipe.pipeline.usage import registered\n"
        f"with registered(Path('runs'), {names(old)}): os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT).returncode == 9
    assert list((RUNS / ".locks" / "runs").iterdir())
    assert [result.needed for result in list_results(RUNS)].count(False) == 2
    assert not list((RUNS / ".locks" / "runs").iterdir())


def test_a_result_that_a_needed_one_names_in_its_settings_stays(
    make: Callable[..., Pipeline], load: Load
) -> None:
    old = make(words="old")
    make(words=f"{RUNS / names(old)[1]}")
    assert all(result.needed for result in list_results(RUNS))


def test_a_damaged_log_stops_the_removal(make: Callable[..., Pipeline]) -> None:
    make()
    (RUNS / "p" / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"runs/p/run.json cannot be read, so it is not known"):
        list_results(RUNS)
    assert main(["prune", "--yes"]) == 1
    assert main(["runs", "--runs", "nowhere"]) == 1


def test_a_read_only_runs_folder_can_be_used(tmp_path: Path) -> None:
    (tmp_path / ".locks").write_text("a file where a folder should be")
    with registered(tmp_path, ["a"]):
        assert [path.name for path in tmp_path.iterdir()] == [".locks"]


def test_a_run_keeps_the_results_it_may_read(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from videopipe.pipeline import run

    monkeypatch.chdir(tmp_path)
    text = f"name: a\nstages: {{model: {{use: adopt, config: {{checkpoint: {tiny_model}}}}}}}\n"
    Path("a.yaml").write_text(text)
    Path("b.yaml").write_text(text.replace("name: a", "name: b"))
    assert main(["run", "a.yaml"]) == 0
    (RUNS / "a" / "run.json").unlink()  # as when another run of this name has replaced it
    (RUNS / "a" / "pipeline.yaml").unlink()
    assert [result.in_use for result in list_results(RUNS)] == [False]
    original, seen = run.run_jobs, []

    def run_jobs(*arguments: object, **options: object) -> object:
        seen.extend(result.in_use for result in list_results(RUNS))
        return original(*arguments, **options)

    monkeypatch.setattr(run, "run_jobs", run_jobs)
    assert main(["run", "b.yaml"]) == 0
    assert seen == [True]
    assert [result.in_use for result in list_results(RUNS)] == [False]


def test_an_age_below_zero_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", "--older-than-days", "-3"]) == 2
    assert "--older-than-days is -3; expected 0 or more" in capsys.readouterr().err
