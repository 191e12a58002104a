"""Reading every image once before training: broken ones are counted, named and left out."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pretrained_2d.errors import ImageDataError
from pretrained_2d.image_items import CifarRecords, ImageItems
from pretrained_2d.loading import worker_context

CHUNK = 256  # images per task


@dataclass(frozen=True)
class Broken:
    """An image that cannot be read, and why."""

    name: str
    reason: str


def find_broken(
    items: ImageItems, *, workers: int, on_progress: Callable[[int], None] | None = None
) -> dict[int, Broken]:
    """Decode everything; the numbers of broken images with their names and reasons."""
    if isinstance(items, CifarRecords):
        return {}  # whole records cannot be broken
    broken: dict[int, Broken] = {}
    parts = [
        np.arange(first, min(first + CHUNK, len(items))) for first in range(0, len(items), CHUNK)
    ]
    for part, reasons in zip(parts, _results(items, parts, workers), strict=True):
        for place, reason in reasons.items():
            index = int(part[place])
            broken[index] = Broken(items.name(index), reason)
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
    items: ImageItems, broken: dict[int, Broken], max_broken: int, where: Path
) -> ImageItems:
    """The images that can be read.

    Raises:
        ImageDataError: more than `max_broken` cannot.
    """
    if len(broken) > max_broken:
        first = "\n  ".join(each.reason for each in list(broken.values())[:5])
        raise ImageDataError(
            f"{len(broken)} of {len(items)} images in {where} cannot be read, and max_broken is"
            f" {max_broken}:\n  {first}\nMend or remove them, or raise max_broken to leave them out"
        )
    if not broken:
        return items
    return items.select(np.setdiff1d(np.arange(len(items)), list(broken)))
