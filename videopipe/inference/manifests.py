"""Reading lists of videos: one path per line, or a table with time ranges (CSV, TSV, JSONL)."""

import csv
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopipe.errors import DataError

MANIFEST_SUFFIXES = (".csv", ".tsv", ".jsonl")
PATH_NAMES = ("path", "video", "file", "filename")
START_NAMES = ("start_seconds", "start", "time_start")
END_NAMES = ("end_seconds", "end", "time_end")


@dataclass(frozen=True, slots=True)
class Source:
    """One video to look at, whole or from `start_seconds` to `end_seconds`."""

    path: str
    start_seconds: float | None = None
    end_seconds: float | None = None

    def __post_init__(self) -> None:
        start = 0.0 if self.start_seconds is None else self.start_seconds
        end = math.inf if self.end_seconds is None else self.end_seconds
        if not 0 <= start < end:  # so written, NaN is refused too
            raise DataError(
                f"{self.path}: from {start} to {end} seconds is no range; 0 ≤ start < end"
            )


def read_list(lines: Iterable[bytes]) -> Iterator[str]:
    """Paths, one per line, with any byte a name may have; empty and # lines are left out."""
    for line in lines:
        path = os.fsdecode(line.rstrip(b"\r\n"))
        if path.strip() and not path.startswith("#"):
            yield path


def read_manifest_file(path: Path) -> Iterator[Source]:
    """Sources from a table with a column `path` and perhaps `start_seconds` and `end_seconds`."""
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            rows = _json_rows(path, file) if path.suffix == ".jsonl" else _csv_rows(path, file)
            for number, row in rows:
                yield _source(f"{path}:{number}", row)
    except OSError as error:
        raise DataError(f"{path}: the manifest cannot be read ({error.strerror})") from None


def _json_rows(path: Path, file: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}:{number}: not JSON ({error.msg})") from None
        if not isinstance(row, dict):
            raise DataError(f'{path}:{number}: expected an object such as {{"path": "a.mp4"}}')
        yield number, row


def _csv_rows(path: Path, file: Iterable[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
    if not set(reader.fieldnames or ()) & set(PATH_NAMES):
        raise DataError(
            f"{path}: the first line names the columns {', '.join(reader.fieldnames or ())}; "
            "expected one of them to be 'path' (and perhaps 'start_seconds', 'end_seconds'). "
            "A list without column names ends in .txt"
        )
    for row in reader:
        yield reader.line_num, row


def _source(where: str, row: Mapping[str, Any]) -> Source:
    path = next((row[name] for name in PATH_NAMES if row.get(name)), None)
    if not isinstance(path, str):
        raise DataError(f"{where}: no path; expected a column 'path' with a file name")
    try:
        return Source(path, _seconds(row, START_NAMES), _seconds(row, END_NAMES))
    except DataError as error:
        raise DataError(f"{where}: {error}") from None


def _seconds(row: Mapping[str, Any], names: tuple[str, ...]) -> float | None:
    name = next((name for name in names if row.get(name) not in (None, "")), None)
    if name is None:
        return None
    try:
        return float(row[name])
    except (TypeError, ValueError):
        raise DataError(f"{name} is {row[name]!r}; expected seconds") from None
