"""`--progress json`: every line of stderr is an object with the documented fields."""

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from videopipe import cli
from videopipe.system import progress as progress_module
from videopipe.system.json_progress import EVENTS, active, json_on_stderr
from videopipe.system.progress import log_line, progress

PIPELINE = "name: p\nstages:\n  model: {{use: adopt, config: {{checkpoint: {model}}}}}\n"


def events(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for event in found:
        assert set(event) == {"event", "time", *EVENTS[event["event"]]}
        assert isinstance(event["time"], float)
    return found


def test_a_run_a_prediction_and_an_error_as_events(
    tiny_model: Path,
    noisy_video: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PIPELINE.format(model=tiny_model))
    assert cli.main(["run", "p.yaml", "--progress", "json"]) == 0
    printed = capsys.readouterr()
    found = events(printed.err)
    assert [e["state"] for e in found if e["event"] == "stage"] == ["running", "done"]
    folder = next(e["folder"] for e in found if e["event"] == "stage")
    assert printed.out == f"model\truns/{folder}\n"
    assert found[0]["command"] == ["run", "p.yaml", "--progress", "json"]
    assert (found[-1]["event"], found[-1]["exit_code"]) == ("end", 0)

    video = str(noisy_video(tmp_path / "a.mp4", 1))
    words = ["predict", str(tiny_model), video, "--out", "t.csv", "--progress", "json", "-j", "1"]
    assert cli.main(words) == 0
    last = [e for e in events(capsys.readouterr().err) if e["event"] == "progress"][-1]
    assert (last["done"], last["unit"], last["finished"]) == (1, "videos", True)

    assert cli.main(["run", "none.yaml", "--progress", "json"]) == 2
    *_, error, end = events(capsys.readouterr().err)
    assert (error["event"], error["kind"], end["exit_code"]) == ("error", "bad configuration", 2)
    assert "none.yaml: no such file" in error["text"]
    assert not active()


def test_loops_report_counts_and_other_text_becomes_messages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module._Events, "every_seconds", 0.0)
    with json_on_stderr():
        with progress("reading", total=4, unit="videos") as bar:
            bar.resume(1)
            bar.advance(2, note="1 unreadable")
            bar.advance()
        log_line("two\nlines")
        library = logging.getLogger("a.library")
        monkeypatch.setattr(library, "handlers", [logging.StreamHandler()])  # to sys.stderr
        library.warning("from a library")
        sys.stderr.write("without an end")
    found = events(capsys.readouterr().err)
    steps = [event for event in found if event["event"] == "progress"]
    assert [step["done"] for step in steps] == [3, 4, 4]
    assert [step["finished"] for step in steps] == [False, False, True]
    assert {step["note"] for step in steps} == {"1 unreadable"}
    texts = [event["text"] for event in found if event["event"] == "message"]
    assert texts[:2] == ["two", "lines"]
    assert "from a library" in texts
    assert texts[-1] == "without an end"


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    names = ("OK", "KNOWN_ERROR", "BAD_CONFIGURATION", "UNEXPECTED_ERROR", "INTERRUPTED")
    codes = [getattr(cli, name) for name in (*names, "TERMINATED")]
    assert list(cli.EXIT_CODES) == codes == [0, 1, 2, 3, 130, 143]
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
    table = page.partition("## Exit codes")[2].partition("## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line[:3].strip("| ").isdigit()]
    written = {int(code.strip("| ")): words.strip(" |") for code, words in rows}
    assert written == {code: f"{name}: {words}" for code, (name, words) in cli.EXIT_CODES.items()}
