"""Recognise the layout of a data set and list its videos."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from videopipe.dataset.layouts.class_folders import (
    find_class_folders,
    find_loose_videos,
    find_split_folders,
)
from videopipe.dataset.layouts.division import Division, Layout
from videopipe.dataset.layouts.hmdb51 import find_hmdb51, find_ucf101
from videopipe.dataset.layouts.listing import DatasetListing, Item, is_video, subfolders
from videopipe.dataset.layouts.lists import find_lists
from videopipe.dataset.layouts.splits import carve_validation, fold_of_groups
from videopipe.dataset.manifest import RECORDS_FILE, Manifest, VideoRecord, read_manifest
from videopipe.errors import DataError
from videopipe.video.frame_folder import CODEC

# In the order in which `auto` tries them, the most specific first.
LAYOUTS: dict[str, Callable[[Path, int], DatasetListing | None]] = {
    "hmdb51": find_hmdb51,
    "ucf101": find_ucf101,
    "lists": find_lists,
    "split_folders": lambda root, _: find_split_folders(root),
    "class_folders": lambda root, _: find_class_folders(root),
    "loose_videos": lambda root, _: find_loose_videos(root),
}
WRAPPERS = ("videos", "data", "clips")  # names of a folder around the data set


def find_dataset(
    path: Path,
    layout: Layout = "auto",
    division: Division | None = None,
    frame_rate: float | None = None,
) -> Manifest:
    """List the videos of a data set with labels and splits; no video is opened.

    `frame_rate` is that of folders of frames. Without it, such folders are videos only where a list
    gives their rate. The folder of a manifest is read as it is, with the health of every video.
    """
    division = division or Division()
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected a folder of videos or a list")
    if (path / RECORDS_FILE).is_file() and layout == "auto":
        return read_manifest(path)
    listing = _with_rates(path, _recognise(path, layout, division.split), frame_rate)
    items = _divide(listing, division)
    numbers = {label: number for number, label in enumerate(listing.labels)}
    unknown = sorted({name for i in items for name in i.classes if name not in numbers})
    if unknown:
        raise DataError(f"{path}: classes that are not in the class list: {', '.join(unknown)}")
    return Manifest(
        labels=listing.labels,
        records=tuple(_record(item, numbers) for item in items),
        root=path if path.is_dir() else path.parent,
        source=path,
        layout=listing.layout,
        val_is_test=division.validation == "paper" and "val" not in {i.split for i in items},
        extra=listing.extra,
    )


def _recognise(path: Path, layout: Layout, split: int) -> DatasetListing:
    if path.is_file() and is_video(path):
        return DatasetListing("one video", (Item(path),), ())
    names = list(LAYOUTS) if layout == "auto" else [layout]
    if path.is_file():
        names = [name for name in names if name == "lists"]
    for name in names:
        for place in _places(path):
            if name == "loose_videos" and place is not path:
                continue  # files beside the wrapper belong to the data set too
            listing = LAYOUTS[name](place, split)
            if listing is not None:
                return listing
    raise DataError(
        f"{path}: no data set found{'' if layout == 'auto' else f' in the layout {layout!r}'}; "
        f"expected videos in class folders, split files, or a list (CSV, JSONL, TXT)"
    )


def _with_rates(path: Path, found: DatasetListing, frame_rate: float | None) -> DatasetListing:
    """The listing with the rate of every folder of frames; without a rate they are left out."""
    items, without_rate = [], 0
    for item in found.items:
        if is_video(item.path) or item.missing or not item.path.is_dir():
            items.append(replace(item, frame_rate=None) if item.frame_rate else item)
        elif rate := item.frame_rate or frame_rate:
            items.append(replace(item, frame_rate=rate))
        else:
            without_rate += 1
    if without_rate == len(found.items) > 0:
        raise DataError(
            f"{path}: {without_rate} folders of numbered images found, without a frame rate; give "
            "--frame-rate (frame_rate in a pipeline), or a column frame_rate in the list"
        )
    if not without_rate:
        return replace(found, items=tuple(items))
    labels = {name for item in items for name in item.classes}
    return replace(found, items=tuple(items), labels=tuple(n for n in found.labels if n in labels))


def _places(path: Path) -> list[Path]:
    """The folder itself, and before it the wrapped folder if it contains nothing else."""
    places = [path]
    if path.is_dir():
        folders = subfolders(path)
        while len(folders) == 1 and folders[0].name.lower() in WRAPPERS:
            places.insert(0, folders[0])
            folders = subfolders(folders[0])
    return places


def _divide(listing: DatasetListing, division: Division) -> list[Item]:
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
        return items  # the test split is used instead, see `Manifest.val_is_test`
    if division.validation == "carve" and listing.labels:
        return carve_validation(items, division.val_fraction, division.seed)
    return items


def _record(item: Item, numbers: dict[str, int]) -> VideoRecord:
    return VideoRecord(
        path=str(item.path),
        label=None if item.label is None else numbers[item.label],
        labels=None if item.labels is None else tuple(sorted(numbers[n] for n in item.labels)),
        split=item.split,
        group=item.group,
        start_seconds=item.start_seconds,
        end_seconds=item.end_seconds,
        frame_rate=item.frame_rate,
        codec="" if item.frame_rate is None else CODEC,
        status="missing" if item.missing else "unknown",
        reason="it is in a list, but there is no such file" if item.missing else "",
    )
