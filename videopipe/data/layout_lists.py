"""Data sets that are lists: CSV or JSONL tables, and the lists of mmaction and SlowFast."""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from videopipe.data.listing import SPLIT_NAMES, Item, Listing, group_of, videos_below
from videopipe.errors import DataError

LIST_SUFFIXES = frozenset({".csv", ".tsv", ".jsonl", ".txt"})
PATH_COLUMNS = ("path", "video", "video_path", "file", "filename", "file_name")
LABEL_COLUMNS = ("label", "class", "class_name", "category")
START_COLUMNS = ("start", "start_seconds", "time_start")
END_COLUMNS = ("end", "end_seconds", "time_end")
LABEL_FILES = ("classInd.txt", "label_map.txt", "labels.txt", "classes.txt")

Row = Mapping[str, Any]


def find_lists(root: Path, split: int) -> Listing | None:
    """A list given by itself, or lists named after their split in a folder."""
    if root.is_file():
        files = [root] if root.suffix.lower() in LIST_SUFFIXES else []
    else:
        files = _lists_in(root, split)
    if not files:
        return None
    folder = root.parent if root.is_file() else root
    finder = _VideoFinder(folder)
    items: list[Item] = []
    kinds: list[str] = []
    for file in files:
        kind, rows = read_rows(file)
        kinds.append(kind)
        given = split_in_name(file.stem) or "train"
        items.extend(_item(file, number, row, given, finder) for number, row in rows)
    labels, items = _name_labels(items, folder)
    names = ", ".join(file.name for file in files)
    return Listing(
        f"{kinds[0]} ({names})",
        tuple(items),
        labels,
        test_is_given="test" in {item.split for item in items},
    )


def read_rows(file: Path) -> tuple[str, Iterator[tuple[int, Row]]]:
    """What kind of list a file is, and its rows with their line numbers."""
    if file.suffix.lower() == ".jsonl":
        return "a JSONL manifest", _json_rows(file)
    lines = _lines(file)
    header = lines[0][1] if lines else ""
    delimiter = "\t" if "\t" in header else ","
    columns = [name.strip().strip('"').lower() for name in header.split(delimiter)]
    if "youtube_id" in columns:
        return "a Kinetics list", _table_rows(lines, columns, delimiter)
    if any(name in columns for name in PATH_COLUMNS):
        return "a CSV manifest", _table_rows(lines, columns, delimiter)
    kind = "SlowFast lists" if file.suffix.lower() == ".csv" else "mmaction lists"
    return kind, _plain_rows(file, lines)


def split_in_name(stem: str) -> str | None:
    """`hmdb51_train_split_1_videos` -> train; `kinetics_validate` -> val."""
    words = [word for word in re.split(r"[^a-z]+", stem.lower()) if word]
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), None)


def _lists_in(root: Path, split: int) -> list[Path]:
    """Lists that name their split; of several numbered sets, the one asked for."""
    places = [root, *(root / name for name in ("annotations", "lists", "splits"))]
    for place in places:
        if not place.is_dir():
            continue
        files = [
            path
            for path in sorted(place.iterdir())
            if path.suffix.lower() in LIST_SUFFIXES and split_in_name(path.stem)
        ]
        numbers = {path: re.search(r"split_?0?(\d)", path.stem) for path in files}
        if any(numbers.values()):
            files = [p for p, number in numbers.items() if number and int(number[1]) == split]
        files = [path for path in files if "rawframes" not in path.stem]
        if files:
            return files
        manifests = [place / f"manifest{suffix}" for suffix in (".csv", ".tsv", ".jsonl")]
        if found := [path for path in manifests if path.is_file()]:
            return found[:1]
    return []


def _lines(file: Path) -> list[tuple[int, str]]:
    text = file.read_text(encoding="utf-8-sig", errors="surrogateescape")
    return [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip()]


def _json_rows(file: Path) -> Iterator[tuple[int, Row]]:
    for number, line in _lines(file):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{file}:{number}: not JSON ({error.msg})") from None
        if not isinstance(row, dict):
            raise DataError(f'{file}:{number}: expected an object such as {{"path": "a.mp4"}}')
        yield number, row


def _table_rows(
    lines: Sequence[tuple[int, str]], columns: Sequence[str], delimiter: str
) -> Iterator[tuple[int, Row]]:
    for number, line in lines[1:]:
        values = next(csv.reader([line], delimiter=delimiter))
        yield number, dict(zip(columns, (value.strip() for value in values), strict=False))


def _plain_rows(file: Path, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    """`path label` without a header. Paths may hold blanks: the last blank or comma divides."""
    for number, line in lines:
        path, _, label = line.strip().replace("\t", " ").rpartition(" ")
        if not path and "," in label:
            path, _, label = label.rpartition(",")
        if not label.lstrip("-").isdigit():
            path, label = line.strip(), ""
        if re.search(r" \d+$", path) and not Path(path).suffix:
            raise DataError(
                f"{file}:{number}: a list of frame folders (folder, frames, label); "
                f"expected videos: lines such as class/video.mp4 3"
            )
        yield number, {"path": path, "label": int(label) if label not in ("", "-1") else None}


def _item(file: Path, number: int, row: Row, split: str, finder: "_VideoFinder") -> Item:
    where = f"{file}:{number}"
    label = _value(row, LABEL_COLUMNS)
    start, end = _seconds(where, row, START_COLUMNS), _seconds(where, row, END_COLUMNS)
    if row.get("split"):
        split = SPLIT_NAMES.get(str(row["split"]).lower(), str(row["split"]))
    if row.get("youtube_id"):
        path, trimmed = finder.kinetics(str(row["youtube_id"]), start, end)
        start, end = (None, None) if trimmed else (start, end)
    else:
        name = _value(row, PATH_COLUMNS)
        if not isinstance(name, str) or not name:
            raise DataError(f"{where}: no path; expected a column 'path' with a file name")
        path = finder.by_path(name)
    if start is not None and end is not None and not 0 <= start < end:
        raise DataError(f"{where}: from {start} to {end} seconds is no stretch of a video")
    label = None if label in (None, "") else label
    group = group_of(path.stem, label if isinstance(label, str) else path.parent.name)
    return Item(path, label, split, group, start, end, not path.is_file())


def _value(row: Row, names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) not in (None, "")), None)


def _seconds(where: str, row: Row, names: Sequence[str]) -> float | None:
    value = _value(row, names)
    try:
        return None if value is None else float(value)
    except ValueError:
        raise DataError(f"{where}: expected a time in seconds, got {value!r}") from None


def _name_labels(items: Sequence[Item], folder: Path) -> tuple[tuple[str, ...], list[Item]]:
    """Class numbers get names: from a label file, else from the folders, else their digits."""
    found = {item.label for item in items if item.label is not None}
    if not all(str(label).isdigit() for label in found):
        return tuple(sorted(str(label) for label in found)), [
            replace(item, label=None if item.label is None else str(item.label)) for item in items
        ]
    numbers = sorted(int(str(label)) for label in found)
    names = _label_file(folder) or _folder_labels(items) or [str(number) for number in numbers]
    highest = max(numbers, default=-1)
    if highest >= len(names):
        names = [str(number) for number in range(highest + 1)]
    return tuple(names), [
        replace(item, label=None if item.label is None else names[int(str(item.label))])
        for item in items
    ]


def _label_file(folder: Path) -> list[str]:
    for place in (folder, folder.parent, folder / "annotations"):
        for name in LABEL_FILES:
            if (place / name).is_file():
                lines = [line.strip() for _, line in _lines(place / name)]
                return [re.sub(r"^\d+\s+", "", line) for line in lines]
    return []


def _folder_labels(items: Sequence[Item]) -> list[str]:
    """Folder names, when each class number stands for one folder and each folder for one number."""
    folders: dict[int, set[str]] = defaultdict(set)
    for item in items:
        if item.label is not None:
            folders[int(str(item.label))].add(item.path.parent.name)
    unique = {number: names.pop() for number, names in folders.items() if len(names) == 1}
    complete = sorted(unique) == list(range(len(folders))) and len(unique) == len(folders)
    if not complete or len(set(unique.values())) < len(unique):
        return []
    return [unique[number] for number in sorted(unique)]


class _VideoFinder:
    """Where the videos of a list lie: beside it, or in one of the usual folders."""

    def __init__(self, folder: Path) -> None:
        names = ("", "videos", "clips", "data", "..", "../videos")
        self._bases = [folder / name if name else folder for name in names]
        self._folder = folder
        self._by_stem: dict[str, Path] | None = None

    def by_path(self, name: str) -> Path:
        path = Path(name).expanduser()
        if path.is_absolute():
            return path
        for base in self._bases:
            if (base / path).is_file():
                if base is not self._bases[0]:
                    self._bases.remove(base)
                    self._bases.insert(0, base)  # the others are likely to lie there too
                return base / path
        return self._folder / path

    def kinetics(self, name: str, start: float | None, end: float | None) -> tuple[Path, bool]:
        """The file of a Kinetics clip, and whether it has been trimmed to its stretch already."""
        if self._by_stem is None:
            self._by_stem = {path.stem: path for path in videos_below(self._folder)}
        trimmed = name
        if start is not None and end is not None:
            trimmed = f"{name}_{int(start):06d}_{int(end):06d}"
        if trimmed in self._by_stem:
            return self._by_stem[trimmed], True
        return self._by_stem.get(name, self._folder / f"{trimmed}.mp4"), False
