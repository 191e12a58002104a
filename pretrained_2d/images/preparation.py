"""Read every image once before training, leave broken ones out, and split off validation images."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from pretrained_2d.atomic import write_text
from pretrained_2d.errors import ImageDataError
from pretrained_2d.images.items import CifarRecords, ImageItems, ImageListing, split_off
from pretrained_2d.training.batches import worker_context

POLL_SECONDS = 1.0
CHUNK = 256  # images per task


@dataclass(frozen=True)
class BrokenImage:
    """An image that cannot be read, and why."""

    name: str
    reason: str


def readable(
    listing: ImageListing,
    *,
    folder: Path,
    record: Path,
    max_broken: int,
    workers: int,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, ImageItems]:
    """The splits without their broken images; what was found is written to `record`.

    The first process reads every image, once: a resumed run takes the record. Others wait for it.
    """
    counts = {split: len(items) for split, items in listing.splits.items()}
    found = _read_record(record, counts)
    if found is None and os.environ.get("RANK", "0") == "0":
        found = {
            split: find_broken(items, workers=workers, on_progress=on_progress)
            for split, items in listing.splits.items()
        }
        text = {s: {n: asdict(b) for n, b in broken.items()} for s, broken in found.items()}
        content = {"layout": listing.describe(), "images": counts, "broken": text}
        write_text(record, json.dumps(content, indent=2, ensure_ascii=False))
    while found is None:
        time.sleep(POLL_SECONDS)
        found = _read_record(record, counts)
    return {
        split: leave_out(items, found[split], max_broken, folder)
        for split, items in listing.splits.items()
    }


def _read_record(
    record: Path, counts: Mapping[str, int]
) -> dict[str, dict[int, BrokenImage]] | None:
    if not record.is_file():
        return None
    content = json.loads(record.read_text(encoding="utf-8"))
    if content["images"] != counts:
        return None  # the folder has changed since
    return {
        split: {int(number): BrokenImage(**each) for number, each in broken.items()}
        for split, broken in content["broken"].items()
    }


def training_and_validation(
    splits: Mapping[str, ImageItems], share: float, seed: int
) -> tuple[ImageItems, ImageItems]:
    """The training images, and those on which the best network is chosen.

    "val" where the data has it, else `share` of the training images: never "test".
    """
    if not len(splits["train"]):
        raise ImageDataError("there is no image to train on that can be read")
    if "val" in splits and len(splits["val"]):
        return splits["train"], splits["val"]
    return split_off(splits["train"], share, seed)


def find_broken(
    items: ImageItems, *, workers: int, on_progress: Callable[[int], None] | None = None
) -> dict[int, BrokenImage]:
    """Decode everything; the numbers of broken images with their names and reasons."""
    if isinstance(items, CifarRecords):
        return {}  # whole records cannot be broken
    broken: dict[int, BrokenImage] = {}
    parts = [
        np.arange(first, min(first + CHUNK, len(items))) for first in range(0, len(items), CHUNK)
    ]
    for part, reasons in zip(parts, _results(items, parts, workers), strict=True):
        for place, reason in reasons.items():
            index = int(part[place])
            broken[index] = BrokenImage(items.name(index), reason)
        if on_progress is not None:
            on_progress(len(part))
    return broken


def _results(items: ImageItems, parts: list[np.ndarray], workers: int) -> Iterator[dict[int, str]]:
    chosen = (items.select(part) for part in parts)
    if workers < 2 or len(parts) < 2:
        yield from map(_failures, chosen)
        return
    with ProcessPoolExecutor(workers, mp_context=worker_context()) as pool:
        yield from pool.map(_failures, chosen)


def _failures(items: ImageItems) -> dict[int, str]:
    reasons = {}
    for index in range(len(items)):
        try:
            items.read(index)
        except ImageDataError as error:
            reasons[index] = str(error)
    return reasons


def leave_out(
    items: ImageItems, broken: dict[int, BrokenImage], max_broken: int, where: Path
) -> ImageItems:
    """The images that can be read.

    Raises:
        ImageDataError: more than `max_broken` cannot.
    """
    if len(broken) > max_broken:
        first = "\n  ".join(each.reason for each in list(broken.values())[:5])
        raise ImageDataError(
            f"{len(broken)} of {len(items)} images in {where} cannot be read, and max_broken is"
            f" {max_broken}:\n  {first}\nRepair or remove them, or raise max_broken"
        )
    if not broken:
        return items
    return items.select(np.setdiff1d(np.arange(len(items)), list(broken)))
