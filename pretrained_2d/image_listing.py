"""The images of a dataset: which layout, which classes, which splits."""

from collections.abc import Mapping
from dataclasses import dataclass

from pretrained_2d.image_items import ImageItems


@dataclass(frozen=True)
class ImageListing:
    """What was found in a folder of images."""

    layout: str
    labels: tuple[str, ...]
    splits: Mapping[str, ImageItems]  # "train", and where there are "val" and "test"
    multilabel: bool = False  # labels are attributes, each there or not
    ignored: int = 0  # files in class folders that are no images

    def describe(self) -> str:
        """One line for the user."""
        counts = ", ".join(f"{len(items)} {split}" for split, items in self.splits.items())
        what = "attributes" if self.multilabel else "classes"
        text = f"{self.layout}: {len(self.labels)} {what}, images: {counts}"
        return text + (f"; {self.ignored} other files left aside" if self.ignored else "")
