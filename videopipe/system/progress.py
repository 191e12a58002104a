"""Progress on stderr: a bar with the time left on a terminal, lines in a log."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from videopipe.system import json_progress

LINE_EVERY_SECONDS = 10.0
STEPS = "steps"  # the unit of a training

_bars_open = 0  # rich draws one live bar at a time; a bar inside a bar becomes lines
_stages_only = False  # with `--progress stages`: no lines about what happens inside a stage


class Bar(Protocol):
    """The value of `with progress(…) as bar`."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Count `amount` more units; `note` replaces the words at the end."""

    def resume(self, done: float, total: float | None = None) -> None:
        """Begin at `done` units of earlier runs; the rate and the time left do not include them."""


@contextmanager
def progress(label: str, *, total: float | None = None, unit: str = "items") -> Iterator[Bar]:
    """Show the progress of a loop: `with progress("decoding", total=n, unit="videos") as bar`.

    Only the first process of several shows anything.
    """
    global _bars_open
    if os.environ.get("RANK", "0") != "0":
        yield _Silence()
        return
    if json_progress.active():
        events = _Events(label, total, unit)
        yield events
        events.finish()
        return
    on_terminal = sys.stderr.isatty() and not _bars_open
    if _stages_only and not on_terminal:
        yield _Silence()
        return
    _bars_open += 1
    try:
        if on_terminal:
            with _rich_bar(label, total, unit) as bar:
                yield bar
        else:
            lines = _LogLines(label, total, unit)
            yield lines
            lines.finish()
    finally:
        _bars_open -= 1


def log_line(message: str) -> None:
    """One line on stderr, from the first process only."""
    if os.environ.get("RANK", "0") == "0":
        print(message, file=sys.stderr, flush=True)  # noqa: T201 - this is the printing place


def detail_line(message: str) -> None:
    """A line about what happens inside a stage; `--progress stages` leaves it out."""
    if not _stages_only:
        log_line(message)


def stages_only() -> bool:
    """Whether each stage is shown as one sentence and its outcome."""
    return _stages_only


@contextmanager
def showing_stages_only() -> Iterator[None]:
    """Leave out details and lines of progress; bars on a terminal disappear when they are full."""
    global _stages_only
    _stages_only = True
    try:
        yield
    finally:
        _stages_only = False


def counted(count: int, noun: str) -> str:
    """`1 video`, `2 videos`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def duration(seconds: float) -> str:
    """`0:07`, `12:05`, `3:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Silence:
    def advance(self, amount: float = 1, note: str = "") -> None:
        pass

    def resume(self, done: float, total: float | None = None) -> None:
        pass


class _LogLines:
    """A line every ten seconds, so that logs of long jobs stay short."""

    every_seconds = LINE_EVERY_SECONDS

    def __init__(self, label: str, total: float | None, unit: str) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done, self.before, self.note = 0.0, 0.0, ""
        self.start = self.last_line = time.monotonic()

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        now = time.monotonic()
        if now - self.last_line >= self.every_seconds:
            self.last_line = now
            self.show(now - self.start)

    def resume(self, done: float, total: float | None = None) -> None:
        self.done = self.before = done
        self.total = total or self.total

    def finish(self) -> None:
        self.show(time.monotonic() - self.start, finished=True)

    def show(self, seconds: float, *, finished: bool = False) -> None:
        log_line(self.line(seconds, finished=finished))

    def line(self, seconds: float, *, finished: bool = False) -> str:
        count = f"{self.done:.0f}" + (f"/{self.total:.0f}" if self.total else "")
        words = f"{self.label}: " + (
            f"step {count}" if self.unit == STEPS else f"{count} {self.unit}"
        )
        now = self.done - self.before  # of this run
        if finished:
            words += f", {now:.0f} of them" * bool(self.before) + f" in {duration(seconds)}"
        elif now and seconds:
            words += f", {_rate(now / seconds, self.unit)}"
            if self.total:
                left = (self.total - self.done) * seconds / now
                words += f", {duration(max(left, 0))} left"
        return f"{words}, {self.note}" if self.note else words


class _Events(_LogLines):
    """Events of `--progress json`, at most one per second."""

    every_seconds = json_progress.PROGRESS_EVERY_SECONDS

    def show(self, seconds: float, *, finished: bool = False) -> None:
        now = self.done - self.before
        left = None
        if self.total and now and seconds and not finished:
            left = round(max(self.total - self.done, 0) * seconds / now, 3)
        json_progress.emit(
            "progress",
            label=self.label,
            unit=self.unit,
            done=self.done,
            total=self.total,
            seconds=round(seconds, 3),
            seconds_left=left,
            note=self.note,
            finished=finished,
        )


def _rate(per_second: float, unit: str) -> str:
    """`2 videos/s`, or `52 s per step` for what takes longer than a second."""
    if per_second >= 1:
        return f"{per_second:.3g} {unit}/s"
    return f"{1 / per_second:.3g} s per {unit.removesuffix('s')}"


@contextmanager
def _rich_bar(label: str, total: float | None, unit: str) -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(
            "{task.completed:.0f}" + (f"/{{task.total:.0f}} {unit}" if total else f" {unit}")
        ),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=_stages_only) as display:
        yield _RichBar(display, label, total)


class _RichBar:
    def __init__(self, display: Any, label: str, total: float | None) -> None:
        self.display, self.total = display, total
        self.task = display.add_task(label, total=total, note="")

    def advance(self, amount: float = 1, note: str = "") -> None:
        fields = {"note": note} if note else {}
        self.display.update(self.task, advance=amount, **fields)

    def resume(self, done: float, total: float | None = None) -> None:
        # A reset also clears the measured speed.
        self.display.reset(self.task, completed=int(done), total=total or self.total, note="")
