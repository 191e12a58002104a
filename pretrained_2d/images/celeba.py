"""Celeb-A: 40 attributes per face, in the original text files or the CSV files of Kaggle."""

from pathlib import Path

import numpy as np

from pretrained_2d.errors import ImageDataError
from pretrained_2d.images.items import ImageFiles, ImageListing

PARTITIONS = {0: "train", 1: "val", 2: "test"}
IMAGES = ("img_align_celeba/img_align_celeba", "img_align_celeba", "Img/img_align_celeba")


def find_celeba(folder: Path) -> ImageListing | None:
    """Celeb-A in any of its published layouts."""
    attributes = _first(folder, "list_attr_celeba")
    if attributes is None:
        return None
    partition = _first(folder, "list_eval_partition")
    images = next((folder / name for name in IMAGES if (folder / name).is_dir()), None)
    if partition is None or images is None:
        missing = "list_eval_partition.txt" if partition is None else "img_align_celeba/"
        raise ImageDataError(f"{folder} looks like Celeb-A, but {missing} is missing; add it")
    labels, rows = _read_attributes(attributes)
    split_of = {name: int(values[0]) for name, values in _read_rows(partition).items()}
    splits = {}
    for number, split in PARTITIONS.items():
        names = [name for name in rows if split_of.get(name) == number]
        if names:
            targets = np.array([rows[name] for name in names], dtype=np.uint8)
            encoded = np.array([name.encode() for name in names], dtype=np.bytes_)
            splits[split] = ImageFiles(images, encoded, targets)
    if "train" not in splits:
        raise ImageDataError(f"{partition} assigns no image to partition 0, the training part")
    return ImageListing("Celeb-A", labels, splits, multilabel=True)


def _first(folder: Path, stem: str) -> Path | None:
    places = (folder, folder / "Anno", folder / "Eval")
    candidates = (place / f"{stem}{suffix}" for place in places for suffix in (".txt", ".csv"))
    return next((path for path in candidates if path.is_file()), None)


def _read_attributes(path: Path) -> tuple[tuple[str, ...], dict[str, list[int]]]:
    with path.open() as file:
        header = file.readline()
        if path.suffix == ".txt":  # there the first line is the number of images
            header = file.readline()
    labels = [word for word in header.replace(",", " ").split() if word != "image_id"]
    rows = {name: [int(v) > 0 for v in values] for name, values in _read_rows(path).items()}
    wrong = next((name for name, values in rows.items() if len(values) != len(labels)), None)
    if not labels or wrong is not None:
        raise ImageDataError(
            f"{path}: {wrong or 'the header'} does not have one value per attribute"
            f" ({len(labels)}); download it again"
        )
    return tuple(labels), {name: [int(value) for value in values] for name, values in rows.items()}


def _read_rows(path: Path) -> dict[str, list[str]]:
    """Lines of a file name and values; headers have none."""
    rows = {}
    for line in path.read_text().splitlines():
        name, *values = line.replace(",", " ").split() or [""]
        if name.lower().endswith((".jpg", ".png")):
            rows[name] = values
    return rows
