"""Finding a data set as it lies, and saying what was found."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from videopipe.data.layout_folders import (
    find_class_folders,
    find_loose_videos,
    find_split_folders,
)
from videopipe.data.layout_hmdb51 import find_hmdb51, find_ucf101
from videopipe.data.layout_lists import find_lists
from videopipe.data.listing import Item, Listing, is_video, subfolders
from videopipe.data.manifest import RECORDS_FILE, Manifest, VideoRecord, read_manifest
from videopipe.data.splits import carve_validation, fold_of_groups
from videopipe.errors import DataError

Layout = Literal[
    "auto", "hmdb51", "ucf101", "lists", "split_folders", "class_folders", "loose_videos"
]
Validation = Literal["carve", "paper", "none"]

# In the order in which `auto` tries them: what is most particular first.
LAYOUTS: dict[str, Callable[[Path, int], Listing | None]] = {
    "hmdb51": find_hmdb51,
    "ucf101": find_ucf101,
    "lists": find_lists,
    "split_folders": lambda root, _: find_split_folders(root),
    "class_folders": lambda root, _: find_class_folders(root),
    "loose_videos": lambda root, _: find_loose_videos(root),
}
WRAPPERS = ("videos", "data", "clips")  # folders that only hold the data set


@dataclass(frozen=True, kw_only=True)
class Division:
    """How a data set is divided, where it does not say itself.

    `validation`: "carve" takes part of the training videos, whole recordings at a time, where the
    data set brings none; "paper" uses the test split as validation, as the authors of the paper
    did; "none" leaves training whole. `num_folds` divides a data set without splits into as many
    test sets, by recording or person.
    """

    split: int = 1
    validation: Validation = "carve"
    val_fraction: float = 0.1
    num_folds: int | None = None
    fold: int = 0
    seed: int = 0


def find_dataset(path: Path, layout: Layout = "auto", division: Division | None = None) -> Manifest:
    """List the videos of a data set with labels and splits; no video is opened.

    The folder of a manifest is read back as it is, with what is known of every video's health.
    """
    division = division or Division()
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected a folder of videos or a list")
    if (path / RECORDS_FILE).is_file() and layout == "auto":
        return read_manifest(path)
    listing = _recognise(path, layout, division.split)
    items = _divide(listing, division)
    numbers = {label: number for number, label in enumerate(listing.labels)}
    unknown = sorted({i.label for i in items if i.label is not None and i.label not in numbers})
    if unknown:
        raise DataError(f"{path}: classes that the class list does not name: {', '.join(unknown)}")
    return Manifest(
        labels=listing.labels,
        records=tuple(_record(item, numbers) for item in items),
        root=path if path.is_dir() else path.parent,
        source=path,
        layout=listing.layout,
        val_is_test=division.validation == "paper" and "val" not in {i.split for i in items},
        extra=listing.extra,
    )


def _recognise(path: Path, layout: Layout, split: int) -> Listing:
    if path.is_file() and is_video(path):
        return Listing("one video", (Item(path),), ())
    names = list(LAYOUTS) if layout == "auto" else [layout]
    if path.is_file():
        names = [name for name in names if name == "lists"]
    for name in names:
        for place in _places(path):
            if name == "loose_videos" and place is not path:
                continue  # a wrapper is unwrapped for a structure, not to lose its neighbours
            listing = LAYOUTS[name](place, split)
            if listing is not None:
                return listing
    raise DataError(
        f"{path}: no data set found{'' if layout == 'auto' else f' in the layout {layout!r}'}; "
        f"expected videos in class folders, split files, or a list (CSV, JSONL, TXT)"
    )


def _places(path: Path) -> list[Path]:
    """The folder itself, and what it wraps when there is nothing else in it."""
    places = [path]
    if path.is_dir():
        folders = subfolders(path)
        while len(folders) == 1 and folders[0].name.lower() in WRAPPERS:
            places.insert(0, folders[0])
            folders = subfolders(folders[0])
    return places


def _divide(listing: Listing, division: Division) -> list[Item]:
    items = list(listing.items)
    if division.num_folds is not None:
        if {item.split for item in items} - {"train", None}:
            raise DataError(
                f"num_folds is given, but the data set has splits of its own ({listing.layout})"
            )
        items = fold_of_groups(items, division.num_folds, division.fold)
    splits = {item.split for item in items}
    if "val" in splits or "train" not in splits:
        return items
    if division.validation == "paper" and "test" in splits:
        return items  # the test split stands in, see `Manifest.of_split`
    if division.validation == "carve" and listing.labels:
        return carve_validation(items, division.val_fraction, division.seed)
    return items


def _record(item: Item, numbers: dict[str, int]) -> VideoRecord:
    return VideoRecord(
        path=str(item.path),
        label=None if item.label is None else numbers[item.label],
        split=item.split,
        group=item.group,
        start_seconds=item.start_seconds,
        end_seconds=item.end_seconds,
        status="missing" if item.missing else "unknown",
        reason="a list names it, but there is no such file" if item.missing else "",
    )
