"""A video, or a range of one: what it is called in tables, and when two of them are the same."""

import hashlib
import math
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache

from videopipe.errors import DataError
from videopipe.video.sources.addresses import is_remote

ESCAPE = re.compile(r"\\x[0-9a-f]{2}")
# Control characters, backslashes, and the surrogates that stand for bytes that are not UTF-8.
TO_ESCAPE = re.compile(r"[\x00-\x1f\x7f\\\udc80-\udcff]+")
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\udc80-\udcff]")
ESCAPED = re.compile(r"\\\\|(?:\\x[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True)
class VideoRange:
    """One video, whole or from `start_seconds` to `end_seconds`.

    `frame_rate` is that of a folder of frames.
    """

    path: str
    start_seconds: float | None = None
    end_seconds: float | None = None
    frame_rate: float | None = None
    _id: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.frame_rate is not None and not 0 < self.frame_rate < math.inf:
            raise DataError(
                f"{self.path}: the frame rate is {self.frame_rate}; expected frames per second "
                "above 0"
            )
        if self.start_seconds is None and self.end_seconds is None:
            return
        start = 0.0 if self.start_seconds is None else self.start_seconds
        end = math.inf if self.end_seconds is None else self.end_seconds
        if not 0 <= start < end:  # false for NaN too
            raise DataError(
                f"{self.path}: {start} to {end} seconds is not a range; expected 0 ≤ start < end"
            )

    @property
    def id(self) -> str:
        """Sixteen hex digits: the same for every way to write the path, and in every run."""
        if self._id is None:
            path = real_path(self.path)
            if self.frame_rate is not None:
                path = f"{path}\0{float(self.frame_rate)}"
            object.__setattr__(self, "_id", _hash(path, *self._seconds))
        return self._id or ""

    def id_in_old_tables(self, path: str) -> str:
        """The id that version 1 of the tables gave this range of the file written as `path`."""
        return _hash(path, *self._seconds)

    @property
    def _seconds(self) -> tuple[float | None, float | None]:
        start, end = self.start_seconds, self.end_seconds
        return None if start is None else float(start), None if end is None else float(end)


def _hash(path: str, start: float | None, end: float | None) -> str:
    return hashlib.blake2b(os.fsencode(f"{path}\0{start}\0{end}"), digest_size=8).hexdigest()


def real_path(path: str) -> str:
    """Absolute, without links and dots in its folders; a file that is a link keeps its own name.

    A URL stays as it is.
    """
    if is_remote(path):
        return path
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        folder, name = path, ""
    # Strings, since a list may have a million lines and a Path costs more than all of this.
    absolute = folder if folder.startswith("/") else f"{os.getcwd()}/{folder}"  # noqa: PTH109
    return f"{_real_folder(absolute)}/{name}"


@lru_cache(100_000)
def _real_folder(folder: str) -> str:
    try:
        return os.path.realpath(folder)
    except (OSError, ValueError):  # a loop of links or a NUL character
        return folder


def path_as_text(path: str) -> str:
    """The path as printable UTF-8, from which `text_as_path` makes the same path again.

    Most paths stay as they are. Bytes that are not UTF-8 and control characters become \\xNN, and
    then, or where the path itself contains such a sequence, every backslash becomes two.
    """
    if path.isprintable() and "\\" not in path:
        return path
    if not UNPRINTABLE.search(path) and not ESCAPE.search(path):
        return path
    return TO_ESCAPE.sub(lambda found: _escaped(found[0]), path)


def _escaped(text: str) -> str:
    return "".join("\\\\" if byte == 92 else f"\\x{byte:02x}" for byte in os.fsencode(text))


def text_as_path(text: str) -> str:
    """The path that `path_as_text` wrote."""
    if not ESCAPE.search(text):
        return text
    return ESCAPED.sub(lambda found: _unescaped(found[0]), text)


def _unescaped(text: str) -> str:
    return "\\" if text == "\\\\" else os.fsdecode(bytes.fromhex(text.replace("\\x", "")))
