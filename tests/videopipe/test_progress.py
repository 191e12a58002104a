"""Progress: lines where nobody watches, a bar on a terminal, nothing from other processes."""

import io
import sys

import pytest

from videopipe import progress as module
from videopipe.progress import duration, progress, say


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_lines_tell_rate_and_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("decoding", total=100, unit="videos") as bar:
        for _ in range(30):
            clock[0] += 1
            bar.advance(2, note="a.avi")
    assert capsys.readouterr() == (
        "",
        "decoding: 20/100 videos, 2/s, 0:40 left, a.avi\n"
        "decoding: 40/100 videos, 2/s, 0:30 left, a.avi\n"
        "decoding: 60/100 videos, 2/s, 0:20 left, a.avi\n"
        "decoding: 60/100 videos in 0:30, a.avi\n",
    )


def test_without_a_total_there_is_no_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("reading", unit="lines") as bar:
        clock[0] = 20
        bar.advance(5)
    assert capsys.readouterr().err == "reading: 5 lines, 0.25/s\nreading: 5 lines in 0:20\n"


def test_only_the_first_process_speaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    with progress("decoding", total=1) as bar:
        bar.advance()
    say("anything")
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_and_a_bar_within_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("outer", total=2, unit="videos") as outer:
        outer.advance(1, note="halfway")
        with progress("inner", total=1) as inner:
            inner.advance()
        outer.advance()
    said = terminal.getvalue()
    assert "outer" in said
    assert "2/2 videos" in said
    assert "inner: 1/1 items in" in said


def test_an_error_inside_leaves_no_bar_open(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), progress("x") as _:
        raise ZeroDivisionError
    assert module._bars_open == 0


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00"), (7.4, "0:07"), (725, "12:05"), (10800, "3:00:00")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
