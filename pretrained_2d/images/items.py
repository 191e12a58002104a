"""Images and their targets, in files or in CIFAR's binary records, and the listing of a folder."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pretrained_2d.errors import ImageDataError
from pretrained_2d.images.decoding import decode_image
from pretrained_2d.randomness import derive_seed

Indices = npt.NDArray[np.int64]


class ImageItems(Protocol):
    """Images by number. A target is a class number, or one 0/1 per attribute."""

    def __len__(self) -> int: ...

    def read(self, index: int) -> Tensor:
        """uint8 (3, height, width); ImageDataError when it cannot be read."""

    def target(self, index: int) -> Tensor:
        """Scalar int64, or uint8 (attributes,)."""

    def name(self, index: int) -> str:
        """The name in messages: a path or a record number."""

    def select(self, indices: Indices) -> Self:
        """Some of them."""


@dataclass(frozen=True)
class ImageFiles:
    """Files below a folder; names as one array, so that workers get a million of them cheaply."""

    folder: Path
    names: npt.NDArray[np.bytes_]  # relative, in the encoding of the file system
    targets: npt.NDArray[np.integer]  # (images,) or (images, attributes)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: int) -> Tensor:
        """Decode one file."""
        return decode_image(self.folder / self.name(index))

    def target(self, index: int) -> Tensor:
        """A class number or a row of attributes."""
        return torch.as_tensor(self.targets[index])

    def name(self, index: int) -> str:
        """The path below the folder."""
        return os.fsdecode(bytes(self.names[index]))

    def select(self, indices: Indices) -> "ImageFiles":
        """Some of them."""
        return ImageFiles(self.folder, self.names[indices], self.targets[indices])


PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class CifarRecords:
    """CIFAR-10's binary files: per image one label byte and 3 × 32 × 32 pixels."""

    paths: tuple[Path, ...]
    indices: Indices

    @staticmethod
    def open(paths: tuple[Path, ...]) -> "CifarRecords":
        """All records of the files, in order.

        Raises:
            ImageDataError: a file is cut short.
        """
        counts = []
        for path in paths:
            count, rest = divmod(path.stat().st_size, PIXELS + 1)
            if rest or not count:
                raise ImageDataError(
                    f"{path} has {path.stat().st_size} bytes; expected a multiple of {PIXELS + 1}, "
                    "the size of a record; download it again"
                )
            counts.append(count)
        return CifarRecords(paths, np.arange(sum(counts)))

    @cached_property
    def _records(self) -> npt.NDArray[np.uint8]:
        parts = [np.fromfile(path, np.uint8).reshape(-1, PIXELS + 1) for path in self.paths]
        return np.concatenate(parts)

    def __getstate__(self) -> dict[str, object]:
        return {"paths": self.paths, "indices": self.indices}  # workers read the files themselves

    def __len__(self) -> int:
        return len(self.indices)

    def read(self, index: int) -> Tensor:
        """The pixels of one record."""
        return torch.from_numpy(self._records[self.indices[index], 1:].reshape(3, 32, 32))

    def target(self, index: int) -> Tensor:
        """The label byte."""
        return torch.tensor(int(self._records[self.indices[index], 0]))

    def name(self, index: int) -> str:
        """The record's number."""
        return f"record {self.indices[index]}"

    def select(self, indices: Indices) -> "CifarRecords":
        """Some of them."""
        return CifarRecords(self.paths, self.indices[indices])


def split_off(items: ImageItems, share: float, seed: int) -> tuple[ImageItems, ImageItems]:
    """Two parts at random: the rest, and `share` of the items (at least one)."""
    order = np.random.default_rng(derive_seed(seed, "split")).permutation(len(items))
    count = max(1, round(share * len(items)))
    return items.select(np.sort(order[count:])), items.select(np.sort(order[:count]))


def random_subset(items: ImageItems, limit: int | None, seed: int) -> ImageItems:
    """A random choice of `limit` items, for small trials; all when there are fewer."""
    if limit is None or limit >= len(items):
        return items
    order = np.random.default_rng(derive_seed(seed, "limit")).permutation(len(items))
    return items.select(np.sort(order[:limit]))


@dataclass(frozen=True)
class ImageListing:
    """The images found in a folder, by split."""

    layout: str
    labels: tuple[str, ...]
    splits: Mapping[str, ImageItems]  # "train", and where there are "val" and "test"
    multilabel: bool = False  # labels are independent attributes
    ignored: int = 0  # files in class folders that are not images

    def describe(self) -> str:
        """One line for the user."""
        counts = ", ".join(f"{len(items)} {split}" for split, items in self.splits.items())
        what = "attributes" if self.multilabel else "classes"
        text = f"{self.layout}: {len(self.labels)} {what}, images: {counts}"
        return text + (f"; {self.ignored} other files ignored" if self.ignored else "")
