"""From what a folder holds to images that can be read, for training and for validation."""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from pretrained_2d.atomic import write_text
from pretrained_2d.errors import ImageDataError
from pretrained_2d.image_check import Broken, find_broken, leave_out
from pretrained_2d.image_items import ImageItems, split_off
from pretrained_2d.image_listing import ImageListing

POLL_SECONDS = 1.0


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


def _read_record(record: Path, counts: Mapping[str, int]) -> dict[str, dict[int, Broken]] | None:
    if not record.is_file():
        return None
    content = json.loads(record.read_text(encoding="utf-8"))
    if content["images"] != counts:
        return None  # the folder has changed since
    return {
        split: {int(number): Broken(**each) for number, each in broken.items()}
        for split, broken in content["broken"].items()
    }


def training_and_validation(
    splits: Mapping[str, ImageItems], share: float, seed: int
) -> tuple[ImageItems, ImageItems]:
    """The training images, and those that choose the best network.

    "val" where the data has it, else `share` of the training images: never "test".
    """
    if not len(splits["train"]):
        raise ImageDataError("there is no image to train on that can be read")
    if "val" in splits and len(splits["val"]):
        return splits["train"], splits["val"]
    return split_off(splits["train"], share, seed)
