"""`plan` and `validate` on the command line."""

from pathlib import Path

import pytest

from videopipe import cli


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text(
        "name: two\nstages:\n  data: {use: generate, matrix: {seed: [1, 2]}}\n"
        "  clips: {use: decode, inputs: {data: data}}\n"
    )
    return "two.yaml"


def test_plan_says_what_would_run_and_why(
    pipeline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", pipeline, "--until", "data"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["run", "data", "(seed=1)"]
    assert lines[1].strip() == "because never run with seed=1"
    assert lines[-1] == "2 run"
    assert not Path("runs").exists()


@pytest.mark.parametrize("option", ["--until", "--redo"])
def test_a_stage_that_is_not_there(
    pipeline: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["plan", pipeline, option, "clip"]) == 2
    assert capsys.readouterr().err == (
        "1 problem in the configuration:\n"
        f"{option} clip: no stage 'clip' in pipeline 'two' (did you mean 'clips'?)\n"
    )


def test_validate_reports_all_files(pipeline: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.yaml").write_text("name: bad\nstages: {a: {use: nothing}}\n")
    Path("worse.yaml").write_text("nmae: worse\n")
    assert cli.main(["validate", pipeline, "bad.yaml", "worse.yaml"]) == 2
    said = capsys.readouterr()
    assert said.out == "two.yaml: ok, 2 stages, 4 results\n"
    assert said.err.startswith("4 problems in the configuration:\nbad.yaml:2:19: unknown stage")
    assert "worse.yaml:1:1: unknown key 'nmae' in the pipeline (did you mean 'name'?)" in said.err


def test_validate_without_data(
    pipeline: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    Path("far.yaml").write_text("name: far\nstages: {a: {use: decode, config: {data: $NOWHERE}}}\n")
    assert cli.main(["validate", "far.yaml"]) == 2
    assert cli.main(["validate", "--without-data", "far.yaml"]) == 0
