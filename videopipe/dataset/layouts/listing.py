"""The files that a layout lists, with their labels and splits. No video is opened."""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pretrained_2d.folder_walk import walk_folders
from videopipe.video.frame_folder import frame_names

VIDEO_SUFFIXES = frozenset(
    """
    .264 .265 .3g2 .3gp .amv .apng .asf .avi .divx .dv .f4v .flv .gif .h264 .h265 .hevc .ivf .m1v
    .m2t .m2ts .m2v .m4v .mjpeg .mjpg .mkv .mov .mp4 .mpe .mpeg .mpg .mts .mxf .nut .ogm .ogv .ps
    .qt .rm .rmvb .swf .ts .vob .webm .wmv .xvid .y4m
    """.split()  # noqa: SIM905 - ninety quotes and commas would hide it
)
# What predictions take for a video. Audio files are among them on purpose: a file without a video
# stream gets a row with the reason, instead of missing from the table.
MEDIA_SUFFIXES = VIDEO_SUFFIXES | frozenset(
    ".aac .flac .m4a .mka .mp3 .oga .ogg .opus .wav .wma".split()  # noqa: SIM905
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
    """A video of the data set, with the name of its class."""

    path: Path
    label: str | None = None
    split: str | None = None
    group: str | None = None
    start_seconds: float | None = None
    end_seconds: float | None = None
    frame_rate: float | None = None  # of a folder of frames
    missing: bool = False  # in a list, but there is no such file
    labels: tuple[str, ...] | None = None  # of multi-label data, instead of `label`; may be empty

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of all its classes."""
        return self.labels or (() if self.label is None else (self.label,))


@dataclass(frozen=True)
class DatasetListing:
    """The files of a data set. `labels` are in the order of the class numbers."""

    layout: str  # what was recognised, for the user
    items: tuple[Item, ...]
    labels: tuple[str, ...]
    extra: tuple[str, ...] = ()


def printable(path: str) -> str:
    """The path as text for people: bytes that are not UTF-8 are written as \\xNN."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_video(path: Path) -> bool:
    """Whether a file has the suffix of a video and is not hidden."""
    return path.suffix.lower() in VIDEO_SUFFIXES and not path.name.startswith(".")


def videos_below(folder: Path) -> Iterator[Path]:
    """Every video file and folder of frames below, in a fixed order; see `walk_folders`."""
    for parent, folders, names in walk_folders(folder):
        folders[:] = (name for name in folders if not name.startswith("."))
        videos = [path for name in names if is_video(path := parent / name)]
        yield from videos
        if not videos and parent != folder and frame_names(names):
            folders.clear()
            yield parent


def has_videos(folder: Path) -> bool:
    """Whether there is a video anywhere below."""
    return next(videos_below(folder), None) is not None


def subfolders(folder: Path) -> list[Path]:
    """The folders directly in a folder, sorted by name, without hidden ones."""
    return sorted(
        path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def sorted_labels(items: Iterable[Item]) -> tuple[str, ...]:
    """Classes in alphabetical order, the order of their numbers."""
    return tuple(sorted({item.label for item in items if item.label is not None}))


def same_name(name: str) -> str:
    """A name in normal form C: some file systems store accents as separate characters."""
    return unicodedata.normalize("NFC", name)


def group_of(stem: str, label: str | None) -> str | None:
    """The recording that a file was cut from, if the file name follows a known convention.

    UCF-101: `v_Bowling_g05_c06` -> `v_Bowling_g05`.
    Weizmann: `daria_bend` in class `bend` -> `daria`.
    """
    head, mark, tail = stem.rpartition("_c")
    if mark and tail.isdigit() and "_g" in head:
        return head
    if label and stem.lower().endswith(f"_{label.lower()}"):
        return stem[: -len(label) - 1]
    return None
