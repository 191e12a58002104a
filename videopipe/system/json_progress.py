"""`--progress json`: everything that a command writes to stderr as JSON objects, one per line.

Every object has `event` and `time` (seconds since 1970). docs/commands.md lists the events and
their fields. Other text that Python code writes to stderr, such as the warnings of libraries,
becomes an event `message` too, so that each line can be parsed.
"""

import io
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

PROGRESS_EVERY_SECONDS = 1.0
# The fields of every event beside `event` and `time`.
EVENTS: dict[str, Mapping[str, str]] = {
    "start": {"command": "the arguments after `videopipe`, a list"},
    "message": {"text": "one line for people"},
    "progress": {
        "label": "what is being done",
        "unit": "unit of the counts, such as videos or steps",
        "done": "units done, including those of an interrupted run",
        "total": "number of units, or null when it is not known",
        "seconds": "seconds since this loop began",
        "seconds_left": "estimated seconds left, or null",
        "note": "further text, such as the loss; may be empty",
        "finished": "true in the last event of a loop",
    },
    "stage": {
        "stage": "name of the stage in the pipeline",
        "variant": "values of its matrix keys, an object",
        "state": "running, cached, done, resumed, failed or interrupted",
        "folder": "name of the result below the runs folder",
    },
    "error": {"kind": "name of the exit code", "text": "the message; may have several lines"},
    "end": {"exit_code": "exit code of the process"},
}

_stream: TextIO | None = None  # the real stderr, while JSON is written
_lock = threading.Lock()


def active() -> bool:
    """Whether progress is written as JSON."""
    return _stream is not None


def emit(event: str, **fields: Any) -> None:
    """Write one event; nothing without `--progress json`."""
    if _stream is None:
        return
    line = json.dumps({"event": event, "time": round(time.time(), 3), **fields}, default=str)
    with _lock:
        _stream.write(f"{line}\n")
        _stream.flush()


@contextmanager
def json_on_stderr() -> Iterator[None]:
    """Write JSON objects to stderr while the body runs; other text becomes messages."""
    global _stream
    before = sys.stderr
    _stream, messages = before, _Messages()
    sys.stderr = messages
    try:
        yield
    finally:
        messages.finish()
        sys.stderr, _stream = before, None


class _Messages(io.TextIOBase):
    """A text stream whose complete lines become events."""

    def __init__(self) -> None:
        self._text = ""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def write(self, text: str) -> int:
        *lines, self._text = (self._text + text).split("\n")
        for line in lines:
            if line.strip():
                emit("message", text=line.rstrip())
        return len(text)

    def finish(self) -> None:
        """Write what has no line end."""
        if self._text.strip():
            emit("message", text=self._text.rstrip())
        self._text = ""
