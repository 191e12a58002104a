"""Exit codes, streams, help, and the imports of help."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pretrained_2d.errors import CheckpointError
from videopipe import cli
from videopipe.errors import ConfigError, VideopipeError

REPOSITORY = Path(__file__).resolve().parents[2]


def videopipe(*arguments: str, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "videopipe", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, **options
    )


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Installs a command `try` that calls a function."""

    def install(function: Callable[[], int]) -> None:
        module = types.SimpleNamespace(
            SUMMARY="try it",
            EXAMPLES="  videopipe try",
            add_arguments=lambda parser: parser.add_argument("--runs"),
            main=lambda _args: function(),
        )
        monkeypatch.setitem(cli.COMMANDS, "try", module)  # type: ignore[arg-type]

    return install


def raising(error: BaseException) -> Callable[[], int]:
    def function() -> int:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (VideopipeError("no such video"), 1, "Error: no such video\n"),
        (CheckpointError("no such weights"), 1, "Error: no such weights\n"),
        (ConfigError(["a:1:1: x"]), 2, "1 problem in the configuration:\na:1:1: x\n"),
        (
            ConfigError(["a:1:1: x", "a:2:1: y"]),
            2,
            "2 problems in the configuration:\na:1:1: x\na:2:1: y\n",
        ),
        (KeyboardInterrupt(), 130, "Interrupted. Everything finished so far is kept.\n"),
        (KeyboardInterrupt("Interrupted in stage 'x'."), 130, "Interrupted in stage 'x'.\n"),
    ],
)
def test_every_exit_code_has_its_message(
    command: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    command(raising(error))
    assert cli.main(["try"]) == code
    assert capsys.readouterr() == ("", said)


def test_a_fault_is_short_and_its_traceback_is_kept(
    command: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    command(raising(ZeroDivisionError("division by zero")))
    assert cli.main(["try", "--runs", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert said == (
        "Unexpected ZeroDivisionError: division by zero\n"
        "This is a fault of videopipe, not yours."
        f" The traceback is in {tmp_path}/error.log; please report it.\n"
    )
    log = (tmp_path / "error.log").read_text()
    assert "Traceback" in log
    assert "division by zero" in log


def test_arguments_that_are_not_utf_8_do_not_break_the_error_boundary(
    command: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9.yaml")
    monkeypatch.setattr(sys, "argv", ["videopipe", "run", name])
    command(raising(ZeroDivisionError(name)))
    assert cli.main(["try"]) == 3
    assert "please report it" in capsys.readouterr().err
    assert r"caf\udce9.yaml" in (tmp_path / "error.log").read_text()
    done = subprocess.run(
        [sys.executable, "-m", "videopipe", "run", name], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert rb"caf\udce9.yaml: no such file" in done.stderr


def test_terminated_ends_like_an_interruption(
    command: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def terminate() -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    command(terminate)
    assert cli.main(["try"]) == 143
    assert capsys.readouterr().err == "Terminated. Everything finished so far is kept.\n"


def test_wrong_arguments_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["rnu"])
    assert caught.value.code == 2
    assert "invalid choice: 'rnu'" in capsys.readouterr().err


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([name, "--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert "examples:" in said
    assert f"videopipe {name}" in said


def test_the_examples_are_commands_that_parse() -> None:
    parser = cli.build_parser()
    shown = [
        line.split("    ")[0].split("  #")[0].split(" | ")[0].split(" > ")[0].strip()
        for module in cli.COMMANDS.values()
        for line in re.sub(r"\\\n\s*", " ", module.EXAMPLES).splitlines()
        if line.strip().startswith("videopipe ")
    ]
    assert shown
    import shlex

    for line in shown:
        assert isinstance(parser.parse_args(shlex.split(line)[1:]), argparse.Namespace), line


def test_help_and_configurations_need_nothing_heavy(tmp_path: Path) -> None:
    heavy = "('torch', 'numpy', 'av', 'timm', 'matplotlib', 'pyarrow', 'accelerate')"
    script = (
        "import sys; from videopipe.cli import build_parser; build_parser().format_help();"
        "assert 'yaml' not in sys.modules and 'rich' not in sys.modules;"
        f"import videopipe.stages; print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_results_on_stdout_progress_on_stderr(tmp_path: Path) -> None:
    splits = ["train_videos", "val_videos", "test_videos", "train_images", "val_images"]
    small = [f"--set=data.{name}=1" for name in [*splits, "unseen_videos"]]
    motions = "--set=data.motions=[left, grow]"
    arguments = ["run", "demo", "--until", "data", "--runs", "runs", motions, *small]
    first = videopipe(*arguments, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    (line,) = first.stdout.splitlines()
    name, folder = line.split("\t")
    assert name == "data"
    assert (tmp_path / folder / "stage.json").is_file()
    assert "[1/1] data: running" in first.stderr
    second = videopipe(*arguments, cwd=tmp_path)
    assert second.stdout == first.stdout
    assert "[1/1] data: cached" in second.stderr
    assert "all 1 results were there already (cached)" in second.stderr
    log = json.loads((tmp_path / "runs/demo/run.json").read_text())
    assert log["state"] == "complete"
    assert [(job["stage"], job["state"]) for job in log["jobs"]] == [("data", "cached")]
    resolved = str(tmp_path / "runs/demo/pipeline.yaml")
    third = videopipe("run", resolved, "--until", "data", "--runs", "runs", cwd=tmp_path)
    assert third.stdout == first.stdout
    plan = videopipe("plan", resolved, "--until", "data", "--set", "data.seed=1", cwd=tmp_path)
    assert "because seed: 0 -> 1" in plan.stdout


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m videopipe stages generate pretrain | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_bad_configuration_exits_with_2(tmp_path: Path) -> None:
    done = videopipe("run", "demo", "--set", "data.sed=3", "--until", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown key 'sed' in data (did you mean 'seed'?)" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs a folder nobody may write to")
def test_a_folder_that_cannot_be_written_to_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["run", "demo", "--until", "data", "--runs", "/sys/kernel/runs"]) == 1
    said = capsys.readouterr().err
    assert "Error: stage 'data': Operation not permitted: '/sys/kernel/runs'" in said
    assert "choose another one with --runs DIR" in said


def test_a_file_in_place_of_the_runs_folder_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("not a folder")
    assert cli.main(["run", "demo", "--until", "data", "--runs", str(tmp_path / "runs")]) == 1
    assert "choose another one with --runs DIR" in capsys.readouterr().err


def test_an_error_while_cleaning_up_does_not_hide_the_interruption(
    command: Callable[[Callable[[], int]], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            raise OSError("handle is closed")

    command(interrupted)
    assert cli.main(["try"]) == 143
    assert capsys.readouterr().err == "Terminated. Everything finished so far is kept.\n"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_keeps_its_work_and_reports_it(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    command = [
        sys.executable,
        "-m",
        "videopipe",
        "run",
        "demo",
        "--until",
        "data",
        "--runs",
        "runs",
    ]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "data: running" not in (line := process.stderr.readline()):
        assert line, "ended before it ran"
    while not list(tmp_path.glob("runs/*.partial/images/train/*/*.png")):
        time.sleep(0.05)
    process.send_signal(sent)
    said = process.communicate(timeout=540)[1]
    assert process.returncode == code
    how = "Interrupted" if sent is signal.SIGINT else "Terminated"
    assert said.splitlines()[-1] == (
        f"{how} in stage 'data'. Finished results are kept; the same command resumes."
    )
    assert not list(tmp_path.glob("runs/data-*/stage.json"))
    log = json.loads((tmp_path / "runs/demo/run.json").read_text())
    assert log["state"] == "interrupted"
