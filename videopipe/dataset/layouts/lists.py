"""Data sets that are lists: tables, and the lists of mmaction and SlowFast."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from videopipe.dataset.layouts.listing import (
    SPLIT_NAMES,
    DatasetListing,
    Item,
    group_of,
    is_video,
    videos_below,
)
from videopipe.dataset.lists.video_lists import LIST_SUFFIXES, ListEntry, path_of_text, read_list
from videopipe.errors import DataError
from videopipe.video.sources.addresses import ARROW_SUFFIXES

T = TypeVar("T")
LABEL_FILES = ("classInd.txt", "label_map.txt", "labels.txt", "classes.txt")


def find_lists(root: Path, split: int) -> DatasetListing | None:
    """A single list, or lists named after their split in a folder."""
    if root.is_file():
        files = [root] if root.suffix.lower() in LIST_SUFFIXES else []
    else:
        files = _lists_in(root, split)
    if not files:
        return None
    folder = root.parent if root.is_file() else root
    finder = VideoFinder(folder)
    items: list[Item] = []
    kinds: list[str] = []
    for file in files:
        kind, entries = read_list(file)
        kinds.append(kind)
        given = split_in_name(file.stem) or "train"
        items.extend(_item(entry, given, finder) for entry in entries)
    _check_one_kind(files[0], items)
    labels, items = _name_labels(items, folder)
    names = ", ".join(file.name for file in files)
    return DatasetListing(f"{kinds[0]} ({names})", tuple(items), labels)


def split_in_name(stem: str) -> str | None:
    """`hmdb51_train_split_1_videos` -> train; `kinetics_validate` -> val."""
    words = [word for word in re.split(r"[^a-z]+", stem.lower()) if word]
    return next((SPLIT_NAMES[word] for word in words if word in SPLIT_NAMES), None)


def _lists_in(root: Path, split: int) -> list[Path]:
    """Lists that name their split; of several numbered sets, the one with the number `split`."""
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
        suffixes = (".csv", ".tsv", ".jsonl", *sorted(ARROW_SUFFIXES))
        manifests = [place / f"manifest{suffix}" for suffix in suffixes]
        if found := [path for path in manifests if path.is_file()]:
            return found[:1]
    return []


def _item(entry: ListEntry, split: str, finder: "VideoFinder") -> Item:
    start, end = entry.start_seconds, entry.end_seconds
    if entry.split:
        split = SPLIT_NAMES.get(entry.split.lower(), entry.split)
    if entry.youtube_id:
        path, trimmed = finder.kinetics(entry.youtube_id, start, end)
        start, end = (None, None) if trimmed else (start, end)
    else:
        path = finder.by_path(entry.path)
    label = None if entry.label is None else str(entry.label)
    named = label if isinstance(entry.label, str) else path.parent.name
    group = group_of(path.stem, named)
    missing = not path.is_file() and not path.is_dir()
    return Item(path, label, split, group, start, end, entry.frame_rate, missing, entry.labels)


def _check_one_kind(file: Path, items: Sequence[Item]) -> None:
    single = next((item for item in items if item.label is not None), None)
    several = next((item for item in items if item.labels is not None), None)
    if single is not None and several is not None:
        raise DataError(
            f"{file}: {single.path.name} has one label and {several.path.name} has a list of them; "
            "expected a column 'labels' in every list, or in none"
        )


def _name_labels(items: Sequence[Item], folder: Path) -> tuple[tuple[str, ...], list[Item]]:
    """Class numbers get names: from a label file, else from the folders, else their digits."""
    found = {name for item in items for name in item.classes}
    if not all(label.isdigit() for label in found):
        return tuple(sorted(found)), list(items)
    numbers = sorted(int(label) for label in found)
    names = _label_file(folder) or _folder_labels(items) or [str(number) for number in numbers]
    highest = max(numbers, default=-1)
    if highest >= len(names):
        names = [str(number) for number in range(highest + 1)]
    return tuple(names), [
        replace(
            item,
            label=None if item.label is None else names[int(item.label)],
            labels=None if item.labels is None else tuple(names[int(n)] for n in item.labels),
        )
        for item in items
    ]


def _label_file(folder: Path) -> list[str]:
    for place in (folder, folder.parent, folder / "annotations"):
        for name in LABEL_FILES:
            if (place / name).is_file():
                text = (place / name).read_text(encoding="utf-8-sig", errors="surrogateescape")
                lines = [line.strip() for line in text.split("\n") if line.strip()]
                return [re.sub(r"^\d+\s+", "", line) for line in lines]
    return []


def _folder_labels(items: Sequence[Item]) -> list[str]:
    """Folder names, if class numbers and folders correspond one to one."""
    folders: dict[int, set[str]] = defaultdict(set)
    for item in items:
        if item.label is not None:
            folders[int(item.label)].add(item.path.parent.name)
    unique = {number: names.pop() for number, names in folders.items() if len(names) == 1}
    complete = sorted(unique) == list(range(len(folders))) and len(unique) == len(folders)
    if not complete or len(set(unique.values())) < len(unique):
        return []
    return [unique[number] for number in sorted(unique)]


class VideoFinder:
    """Finds the videos of a list: beside it, or in a folder with one of the usual names."""

    def __init__(self, folder: Path) -> None:
        names = ("", "videos", "clips", "data", "..", "../videos")
        self._bases = [folder / name if name else folder for name in names]
        self._folder = folder
        self._by_stem: dict[str, Path] | None = None

    def by_path(self, name: str) -> Path:
        """The file of this name; a missing one is expected beside the list."""
        found = self._existing(name)
        if found is None and (other := path_of_text(name)) != name:
            name, found = other, self._existing(other)
        return found or self._folder / Path(name).expanduser()

    def _existing(self, name: str) -> Path | None:
        path = Path(name).expanduser()
        for base in list(self._bases):
            if (base / path).is_file() or (not is_video(path) and (base / path).is_dir()):
                if base is not self._bases[0]:
                    self._bases.remove(base)
                    self._bases.insert(0, base)  # the others are likely to be there too
                return base / path
        return None

    def kinetics(self, name: str, start: float | None, end: float | None) -> tuple[Path, bool]:
        """The file of a Kinetics clip, and whether it is trimmed to its range already."""
        if self._by_stem is None:
            self._by_stem = {path.stem: path for path in videos_below(self._folder)}
        found, trimmed, is_trimmed = kinetics_clip(self._by_stem, name, start, end)
        return found or self._folder / f"{trimmed}.mp4", is_trimmed


def kinetics_clip(
    by_stem: Mapping[str, T], name: str, start: float | None, end: float | None
) -> tuple[T | None, str, bool]:
    """The video of a Kinetics clip, the name of its trimmed file, and whether it is that file."""
    trimmed = name
    if start is not None and end is not None:
        trimmed = f"{name}_{int(start):06d}_{int(end):06d}"
    if trimmed in by_stem:
        return by_stem[trimmed], trimmed, True
    return by_stem.get(name), trimmed, False
