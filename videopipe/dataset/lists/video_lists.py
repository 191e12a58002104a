"""Lists of videos: one path per line, or named columns (CSV, TSV, JSONL, Parquet, Arrow).

Data sets and predictions read the same lists with the same columns.
"""

import csv
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from videopipe.dataset.layouts.listing import VIDEO_SUFFIXES
from videopipe.dataset.lists.arrow_lists import arrow_rows
from videopipe.dataset.lists.video_range import ESCAPE, text_as_path
from videopipe.errors import DataError
from videopipe.video.sources.addresses import ARROW_SUFFIXES
from videopipe.video.sources.byte_columns import PATH_COLUMNS

LIST_SUFFIXES = frozenset({".csv", ".tsv", ".jsonl", ".txt", ".lst", ".list"}) | ARROW_SUFFIXES
LABEL_COLUMNS = ("label", "class", "class_name", "category")
SEVERAL_LABELS = "labels"  # the column of multi-label data
LABEL_SEPARATORS = re.compile(r"[;|]")
START_COLUMNS = ("start_seconds", "start", "time_start")
RATE_COLUMNS = ("frame_rate", "fps")
END_COLUMNS = ("end_seconds", "end", "time_end")
KINETICS_COLUMN = "youtube_id"
NAMED_COLUMNS = frozenset(
    (
        *PATH_COLUMNS,
        *LABEL_COLUMNS,
        *START_COLUMNS,
        *END_COLUMNS,
        *RATE_COLUMNS,
        "split",
        SEVERAL_LABELS,
    )
)

csv.field_size_limit(sys.maxsize)  # 131,072 characters by default


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One line of a list. A list of Kinetics names a video by `youtube_id` instead of a path."""

    line: int
    path: str
    label: str | int | None = None
    split: str | None = None
    start_seconds: float | None = None
    end_seconds: float | None = None
    youtube_id: str | None = None
    frame_rate: float | None = None  # of a folder of frames
    labels: tuple[str, ...] | None = None  # of multi-label data; may be empty


def read_list(file: Path | str, *, as_bytes: bool = False) -> tuple[str, Iterator[ListEntry]]:
    """What kind of list a file is, in words, and its entries; they are read as they are drawn.

    With `as_bytes`, a Parquet or Arrow file may hold the videos themselves.
    """
    suffix = Path(file).suffix.lower()
    if suffix == ".jsonl":
        return "a JSONL manifest", _table_entries(file, _json_rows(file))
    if suffix in ARROW_SUFFIXES:
        rows = arrow_rows(file, NAMED_COLUMNS, as_bytes=as_bytes)
        kind = "a Parquet manifest" if suffix == ".parquet" else "an Arrow manifest"
        return kind, _table_entries(file, rows)
    with open_list(file) as lines:
        header = _decode(next((line for line in lines if line.strip()), b""), strip_mark=True)
    delimiter = "\t" if "\t" in header else ","
    columns = [name.strip().strip('"').lower() for name in header.split(delimiter)]
    if KINETICS_COLUMN in columns:
        return "a Kinetics list", _table_entries(file, _csv_rows(file, columns, delimiter))
    if any(name in columns for name in PATH_COLUMNS):
        return "a CSV manifest", _table_entries(file, _csv_rows(file, columns, delimiter))
    if suffix in (".csv", ".tsv") and header and not _is_video_name(_split_label(header)[0]):
        raise DataError(
            f"{file}:1: the columns are {', '.join(columns)}; expected one of them to be 'path' "
            "(others: label, split, start_seconds, end_seconds), or lines such as class/video.mp4 3"
        )
    kind = "SlowFast lists" if suffix == ".csv" else "mmaction lists"
    return kind, _entries_of_file(file)


def read_paths(lines: Iterable[bytes]) -> Iterator[ListEntry]:
    """Entries of lines in any encoding: `class/video.mp4`, with a class number after it or not.

    Lines such as `class/folder 120 3` name a folder of 120 frames, as in the lists of mmaction.

    Empty lines and lines that begin with # are skipped.
    """
    for number, line in enumerate(lines, 1):
        text = _decode(line, strip_mark=number == 1).rstrip("\r\n")
        if not text or text[0] == "#" or text.isspace():
            continue
        if not text[-1].isdigit():
            yield ListEntry(number, text)
            continue
        path, label = _split_label(text)
        if label is not None and not Path(path).suffix:  # mmaction: folder, frames, label
            path = re.sub(r"\s+\d+$", "", path)
        yield ListEntry(number, path, label)


def open_list(file: Path | str) -> BinaryIO:
    """The list, opened for reading; `DataError` when that is not possible."""
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise DataError(
            f"{file}: the list of videos cannot be read ({error.strerror}); expected a readable "
            "file with one path per line, or a table with a column 'path'"
        ) from None


def path_of_text(text: str) -> str:
    """A path from a list, which may be written as in a table of predictions (`path_as_text`)."""
    return text if not ESCAPE.search(text) or os.path.lexists(text) else text_as_path(text)


def _decode(line: bytes, *, strip_mark: bool = False) -> str:
    return os.fsdecode(line.removeprefix(b"\xef\xbb\xbf") if strip_mark else line)


def _entries_of_file(file: Path | str) -> Iterator[ListEntry]:
    with open_list(file) as lines:
        yield from read_paths(lines)


def _is_video_name(path: str) -> bool:
    return Path(path).suffix.lower() in VIDEO_SUFFIXES


def _split_label(text: str) -> tuple[str, int | None]:
    """`a b.mp4 3` -> (`a b.mp4`, 3); a number after anything but a video belongs to the path."""
    found = re.fullmatch(r"\s*(.*\S)[\s,]+(-?\d+)\s*", text)
    if found is None:
        return text, None
    path, label = found[1].rstrip(","), int(found[2])
    if _is_video_name(path) or re.search(r"\s\d+$", path):
        return path, None if label == -1 else label
    return text, None


def _json_rows(file: Path | str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with open_list(file) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(_decode(line, strip_mark=number == 1))
            except json.JSONDecodeError as error:
                raise DataError(f"{file}:{number}: not JSON ({error.msg})") from None
            if not isinstance(row, dict):
                raise DataError(f'{file}:{number}: expected an object such as {{"path": "a.mp4"}}')
            yield number, row


def _csv_rows(
    file: Path | str, columns: Sequence[str], delimiter: str
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with open_list(file) as lines:
        reader = csv.reader(map(_decode, lines), delimiter=delimiter, skipinitialspace=True)
        try:
            filled = (values for values in reader if any(value.strip() for value in values))
            next(filled, None)  # the names of the columns
            for values in filled:
                yield reader.line_num, dict(zip(columns, values, strict=False))
        except csv.Error as error:
            raise DataError(f"{file}:{reader.line_num}: not CSV ({error})") from None


def _table_entries(
    file: Path | str, rows: Iterable[tuple[int, Mapping[str, Any]]]
) -> Iterator[ListEntry]:
    for number, row in rows:
        where = f"{file}:{number}"
        path, youtube_id = _value(row, PATH_COLUMNS), row.get(KINETICS_COLUMN)
        if not youtube_id and not isinstance(path, str):
            raise DataError(f"{where}: no path; expected a column 'path' with a file name")
        start, end = _seconds(where, row, START_COLUMNS), _seconds(where, row, END_COLUMNS)
        if not (start or 0.0) >= 0 or (end is not None and not (start or 0.0) < end):
            raise DataError(
                f"{where}: {start} to {end} seconds is not a range; expected 0 ≤ start < end"
            )
        label, split = _value(row, LABEL_COLUMNS), _value(row, ("split",))
        labels = _several_labels(where, row, label)
        yield ListEntry(
            number,
            path or "",
            None if labels is not None else label.strip() if isinstance(label, str) else label,
            None if split is None else str(split).strip(),
            start,
            end,
            None if youtube_id is None else str(youtube_id).strip(),
            _rate(where, row),
            labels,
        )


def _several_labels(where: str, row: Mapping[str, Any], label: Any) -> tuple[str, ...] | None:
    """The labels of a row of multi-label data: a list, or text with ; or | between them.

    None for a row with one label. A row of multi-label data may have no label at all.
    """
    given = label if isinstance(label, list | tuple) else row.get(SEVERAL_LABELS)
    if SEVERAL_LABELS not in row and not isinstance(label, list | tuple):
        return None
    if label is not None and given in (None, "", []):
        return None  # the column is there, but this data has one label per video
    if label is not None and given is not label:
        raise DataError(
            f"{where}: both 'labels' and one label ({label!r}); expected the column 'labels' for "
            "data with several labels per video, else a column 'label'"
        )
    if given is None:
        return ()
    if isinstance(given, str):
        given = LABEL_SEPARATORS.split(given)
    if isinstance(given, int):
        given = [given]
    if not isinstance(given, list | tuple) or not all(isinstance(one, str | int) for one in given):
        raise DataError(f"{where}: labels are {given!r}; expected a list such as ['run', 'jump']")
    names = (str(one).strip() for one in given)
    return tuple(dict.fromkeys(name for name in names if name))


def _value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _rate(where: str, row: Mapping[str, Any]) -> float | None:
    value = _value(row, RATE_COLUMNS)
    try:
        rate = None if value is None else float(value)
    except (TypeError, ValueError):
        rate = 0.0
    if rate is not None and not 0 < rate < math.inf:
        raise DataError(f"{where}: {value!r} is not a frame rate; expected frames per second")
    return rate


def _seconds(where: str, row: Mapping[str, Any], names: Sequence[str]) -> float | None:
    value = _value(row, names)
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        raise DataError(f"{where}: {value!r} is not a time; expected seconds") from None
