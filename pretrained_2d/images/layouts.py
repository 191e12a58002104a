"""Recognise the layout of a folder of images."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from pretrained_2d.errors import ImageDataError
from pretrained_2d.folder_walk import walk_folders
from pretrained_2d.images.celeba import find_celeba
from pretrained_2d.images.decoding import SUFFIXES
from pretrained_2d.images.items import CifarRecords, ImageFiles, ImageListing

CIFAR10 = [
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
]  # in the order of the class numbers
SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val",
          "validation": "val", "test": "test", "testing": "test"}  # fmt: skip


def find_images(folder: Path) -> ImageListing:
    """The images of a folder in any known layout.

    Raises:
        ImageDataError: names what was found and what is expected.
    """
    if not folder.is_dir():
        raise ImageDataError(f"{folder} is not a folder; give the folder that holds the images")
    for find in LAYOUTS:
        listing = find(folder)
        if listing is not None:
            return listing
    names = sorted(path.name for path in folder.iterdir())
    found = ", ".join(names[:8]) + (" …" if len(names) > 8 else "") if names else "nothing"
    raise ImageDataError(
        f"{folder} holds {found}; expected train/ and val/ with a folder of images per class,"
        " folders of images per class, CIFAR-10's data_batch_1.bin …, or Celeb-A's"
        " list_attr_celeba.txt"
    )


def find_cifar(folder: Path) -> ImageListing | None:
    """CIFAR-10's binary files, here or in the folder its archive makes."""
    for place in (folder, folder / "cifar-10-batches-bin"):
        train = tuple(sorted(place.glob("data_batch_*.bin")))
        if not train:
            continue
        splits = {"train": CifarRecords.open(train)}
        if (place / "test_batch.bin").is_file():
            splits["test"] = CifarRecords.open((place / "test_batch.bin",))
        names = place / "batches.meta.txt"
        labels = names.read_text().split() if names.is_file() else CIFAR10
        return ImageListing("CIFAR-10 binary files", tuple(labels), splits)
    return None


def find_split_folders(folder: Path) -> ImageListing | None:
    """train/<class>/ beside val/<class>/ and test/<class>/, as ImageNet is."""
    places = {
        SPLITS[path.name.lower()]: path
        for path in sorted(folder.iterdir())
        if path.is_dir() and path.name.lower() in SPLITS
    }
    if "train" not in places:
        return None
    labels = _class_names(places["train"])
    if not labels:
        raise ImageDataError(
            f"{places['train']} has no class folders; expected one folder of images per class"
        )
    ignored: list[str] = []
    splits = {
        split: _class_files(place, labels, ignored)
        for split, place in sorted(places.items(), key=lambda each: each[0] != "train")
    }
    is_imagenet = all(re.fullmatch(r"n\d{8}", label) for label in labels)
    kind = "ImageNet" if is_imagenet else "class folders in splits"
    return ImageListing(kind, labels, splits, ignored=len(ignored))


def find_class_folders(folder: Path) -> ImageListing | None:
    """<class>/ folders without splits."""
    labels = _class_names(folder)
    if not labels:
        return None
    ignored: list[str] = []
    files = _class_files(folder, labels, ignored)
    if not len(files):
        return None
    return ImageListing("class folders", labels, {"train": files}, ignored=len(ignored))


def _class_names(folder: Path) -> tuple[str, ...]:
    return tuple(
        sorted(
            path.name for path in folder.iterdir() if path.is_dir() and path.name[:1] not in "._"
        )
    )


def _class_files(folder: Path, labels: tuple[str, ...], ignored: list[str]) -> ImageFiles:
    found = _class_names(folder)
    unknown = sorted(set(found) - set(labels))
    if unknown:
        raise ImageDataError(
            f"{folder} has classes that train does not have: {', '.join(unknown[:5])};"
            " both must have the same class folders"
        )
    if not found:
        raise ImageDataError(
            f"{folder} has no class folders; sort its images into one folder per class"
        )
    names: list[bytes] = []
    targets: list[int] = []
    for number, label in enumerate(labels):
        for path in sorted(_files_below(folder / label)) if label in found else ():
            if path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
                names.append(os.fsencode(path.relative_to(folder)))
                targets.append(number)
            else:
                ignored.append(str(path))
    return ImageFiles(folder, np.array(names, dtype=np.bytes_), np.array(targets, dtype=np.int64))


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, _, names in walk_folders(folder):
        yield from (parent / name for name in names)


LAYOUTS: tuple[Callable[[Path], ImageListing | None], ...] = (
    find_cifar,
    find_celeba,
    find_split_folders,
    find_class_folders,
)
