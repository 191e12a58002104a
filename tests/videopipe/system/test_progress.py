"""Progress: lines in a log, a bar on a terminal, nothing from other processes."""

import io
import sys

import pytest

from videopipe.system import progress as module
from videopipe.system.progress import (
    STEPS,
    detail_line,
    duration,
    log_line,
    progress,
    showing_stages_only,
)
from videopipe.system.training_bar import TrainingBar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_lines_show_rate_and_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("decoding", total=100, unit="videos") as bar:
        for _ in range(30):
            clock[0] += 1
            bar.advance(2, note="a.avi")
    assert capsys.readouterr() == (
        "",
        "decoding: 20/100 videos, 2 videos/s, 0:40 left, a.avi\n"
        "decoding: 40/100 videos, 2 videos/s, 0:30 left, a.avi\n"
        "decoding: 60/100 videos, 2 videos/s, 0:20 left, a.avi\n"
        "decoding: 60/100 videos in 0:30, a.avi\n",
    )


def test_without_a_total_there_is_no_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("reading", unit="lines") as bar:
        clock[0] = 20
        bar.advance(5)
    assert capsys.readouterr().err == "reading: 5 lines, 4 s per line\nreading: 5 lines in 0:20\n"


def test_a_resumed_loop_counts_only_its_own_work_in_the_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("decoding", total=1000, unit="videos") as bar:
        bar.resume(900)
        clock[0] += 50
        bar.advance(5)
        clock[0] += 10
        bar.advance(95)
    assert capsys.readouterr().err == (
        "decoding: 905/1000 videos, 10 s per video, 15:50 left\n"
        "decoding: 1000/1000 videos, 1.67 videos/s, 0:00 left\n"
        "decoding: 1000/1000 videos, 100 of them in 1:00\n"
    )


def test_a_training_is_shown_in_steps_also_after_a_resume(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    from pretrained_2d.training.train import TrainingProgress

    with progress("fine-tuning", unit=STEPS) as bar:
        show = TrainingBar(bar)
        for step in range(148, 151):
            clock[0] += 20
            show(TrainingProgress(step, 216, 3, 0.5, 1e-4, None))
    assert capsys.readouterr().err == (
        "fine-tuning: step 148/216, 20 s per step, 22:40 left, epoch 3, loss 0.500, lr 0.0001\n"
        "fine-tuning: step 149/216, 20 s per step, 22:20 left, epoch 3, loss 0.500, lr 0.0001\n"
        "fine-tuning: step 150/216, 20 s per step, 22:00 left, epoch 3, loss 0.500, lr 0.0001\n"
        "fine-tuning: step 150/216, 3 of them in 1:00, epoch 3, loss 0.500, lr 0.0001\n"
    )


def test_only_the_first_process_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    with progress("decoding", total=1) as bar:
        bar.advance()
    log_line("anything")
    assert capsys.readouterr().err == ""


def test_stages_only_leaves_out_details_and_lines_of_progress(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with showing_stages_only():
        detail_line("a detail")
        log_line("a result")
        with progress("decoding", total=2) as bar:
            clock[0] += 60
            bar.advance()
    assert capsys.readouterr().err == "a result\n"
    detail_line("a detail")
    assert capsys.readouterr().err == "a detail\n"


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
