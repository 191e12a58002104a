"""Progress on stderr: a bar with the time left on a terminal, plain lines everywhere else."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

LINE_EVERY_SECONDS = 10.0

_bars_open = 0  # rich draws one live bar at a time; a bar inside a bar falls back to lines


class Bar(Protocol):
    """What `progress` hands out."""

    def advance(self, amount: float = 1, note: str = "") -> None:
        """Say that `amount` more units are done; `note` replaces the words at the end."""


@contextmanager
def progress(label: str, *, total: float | None = None, unit: str = "items") -> Iterator[Bar]:
    """Show how far a loop has come: `with progress("decoding", total=n, unit="videos") as bar`.

    Only the first process of several shows anything.
    """
    global _bars_open
    if os.environ.get("RANK", "0") != "0":
        yield _Silence()
        return
    on_terminal = sys.stderr.isatty() and not _bars_open
    _bars_open += 1
    try:
        if on_terminal:
            with _rich_bar(label, total, unit) as bar:
                yield bar
        else:
            lines = _Lines(label, total, unit)
            yield lines
            lines.finish()
    finally:
        _bars_open -= 1


def say(message: str) -> None:
    """One line on stderr, from the first process only."""
    if os.environ.get("RANK", "0") == "0":
        print(message, file=sys.stderr, flush=True)  # noqa: T201 - this is the printing place


def duration(seconds: float) -> str:
    """`0:07`, `12:05`, `3:00:00`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class _Silence:
    def advance(self, amount: float = 1, note: str = "") -> None:
        pass


class _Lines:
    """A line now and then: logs of long jobs stay readable and short."""

    def __init__(self, label: str, total: float | None, unit: str) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done, self.note = 0.0, ""
        self.start = self.last_line = time.monotonic()

    def advance(self, amount: float = 1, note: str = "") -> None:
        self.done += amount
        self.note = note or self.note
        now = time.monotonic()
        if now - self.last_line >= LINE_EVERY_SECONDS:
            self.last_line = now
            say(self.line(now - self.start))

    def finish(self) -> None:
        say(self.line(time.monotonic() - self.start, finished=True))

    def line(self, seconds: float, *, finished: bool = False) -> str:
        words = f"{self.label}: {self.done:.0f}"
        if self.total:
            words += f"/{self.total:.0f}"
        words += f" {self.unit}"
        if finished:
            words += f" in {duration(seconds)}"
        elif self.done and seconds:
            words += f", {self.done / seconds:.3g}/s"
            if self.total:
                left = (self.total - self.done) * seconds / self.done
                words += f", {duration(max(left, 0))} left"
        return f"{words}, {self.note}" if self.note else words


@contextmanager
def _rich_bar(label: str, total: float | None, unit: str) -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}" + ("/{task.total:.0f} " + unit if total else "")),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as display:
        yield _RichBar(display, display.add_task(label, total=total, note=""))


class _RichBar:
    def __init__(self, display: Any, task: Any) -> None:
        self.display, self.task = display, task

    def advance(self, amount: float = 1, note: str = "") -> None:
        fields = {"note": note} if note else {}
        self.display.update(self.task, advance=amount, **fields)
