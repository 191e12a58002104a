"""Names of the layouts, and how videos are divided; commands and stages import it without torch."""

from dataclasses import dataclass
from typing import Literal

# As in `recognise.LAYOUTS`, where they are found.
Layout = Literal[
    "auto", "hmdb51", "ucf101", "lists", "split_folders", "class_folders", "loose_videos"
]
Validation = Literal["carve", "paper", "none"]


@dataclass(frozen=True, kw_only=True)
class Division:
    """How a data set without given splits is split.

    `validation`, for a data set without a validation split: "carve" takes part of the training
    videos, whole recordings at a time; "paper" uses the test split, as the authors of the paper
    did; "none" makes no validation split. `num_folds` divides a data set without splits into as
    many test sets, by recording or person.
    """

    split: int = 1
    validation: Validation = "carve"
    val_fraction: float = 0.1
    num_folds: int | None = None
    fold: int = 0
    seed: int = 0
