"""What a layout finds: files with their labels and splits, before any file is opened."""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from videopipe.folders import walk_folders

VIDEO_SUFFIXES = frozenset(
    """
    .264 .265 .3g2 .3gp .amv .apng .asf .avi .divx .dv .f4v .flv .gif .h264 .h265 .hevc .ivf .m1v
    .m2t .m2ts .m2v .m4v .mjpeg .mjpg .mkv .mov .mp4 .mpe .mpeg .mpg .mts .mxf .nut .ogm .ogv .ps
    .qt .rm .rmvb .swf .ts .vob .webm .wmv .xvid .y4m
    """.split()  # noqa: SIM905 - ninety quotes and commas would hide it
)
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validate": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class Item:
    """A file that belongs to the data set, with its class by name."""

    path: Path
    label: str | None = None
    split: str | None = None
    group: str | None = None
    start_seconds: float | None = None
    end_seconds: float | None = None
    missing: bool = False  # a list names it, but it is not there


@dataclass(frozen=True)
class Listing:
    """A data set as one layout understands it. `labels` are in the order of their numbers."""

    layout: str  # a sentence for the user: what was recognised
    items: tuple[Item, ...]
    labels: tuple[str, ...]
    extra: tuple[str, ...] = ()
    test_is_given: bool = False  # an official test split that must not be touched


def printable(path: str) -> str:
    """The path as text: bytes that are no UTF-8 are written as \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_video(path: Path) -> bool:
    """By its name; whether it can be decoded is another question."""
    return path.suffix.lower() in VIDEO_SUFFIXES and not path.name.startswith(".")


def videos_below(folder: Path) -> Iterator[Path]:
    """Every video file below a folder, in a fixed order; links are followed, loops of them end."""
    for parent, folders, names in walk_folders(folder):
        folders[:] = (name for name in folders if not name.startswith("."))
        yield from (path for name in sorted(names) if is_video(path := parent / name))


def has_videos(folder: Path) -> bool:
    """Whether there is a video file anywhere below."""
    return next(videos_below(folder), None) is not None


def subfolders(folder: Path) -> list[Path]:
    """Folders right below, sorted by name, without hidden ones."""
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def sorted_labels(items: Iterable[Item]) -> tuple[str, ...]:
    """Classes in alphabetical order, the order of their numbers."""
    return tuple(sorted({item.label for item in items if item.label is not None}))


def same_name(name: str) -> str:
    """A name as it compares across file systems, some of which store accents decomposed."""
    return unicodedata.normalize("NFC", name)


def group_of(stem: str, label: str | None) -> str | None:
    """The recording that a file was cut from, where the usual names tell it.

    UCF-101: `v_Bowling_g05_c06` -> `v_Bowling_g05`.
    Weizmann: `daria_bend` in class `bend` -> `daria`.
    """
    head, mark, tail = stem.rpartition("_c")
    if mark and tail.isdigit() and "_g" in head:
        return head
    if label and stem.lower().endswith(f"_{label.lower()}"):
        return stem[: -len(label) - 1]
    return None
