"""Which videos are learned from, which decide, and which are only counted in the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from videopipe.data.manifest import Manifest, VideoRecord
from videopipe.errors import DataError

Protocol = Literal["validation", "paper", "last"]


@dataclass(frozen=True)
class Videos:
    """The videos of a fine-tuning, and the protocol that it really follows."""

    train: Sequence[VideoRecord]
    validation: Sequence[VideoRecord]  # empty: nothing decides, the last checkpoint is kept
    protocol: Protocol
    left_out: int  # training videos that cannot be read


def choose_videos(manifest: Manifest, protocol: Protocol) -> Videos:
    """Divide the labelled videos of a manifest by protocol.

    "validation": learn from train, choose on val. "paper": learn from everything but the test
    videos, choose on these. "last": learn from everything but the test videos, choose nothing.
    A manifest whose validation set is its test set makes "validation" the paper's protocol.
    """
    if protocol == "validation" and manifest.val_is_test:
        protocol = "paper"
    learn = ("train",) if protocol == "validation" else ("train", "val")
    all_train = [r for r in manifest.records if r.split in learn and r.label is not None]
    train = [record for record in all_train if record.usable]
    if not train:
        raise DataError(f"{manifest.root}: no readable training video among {_counts(manifest)}")
    decide = {"validation": "val", "paper": "test", "last": None}[protocol]
    validation = [] if decide is None else _labelled(manifest, decide)
    if decide is not None and not validation:
        raise DataError(
            f"{manifest.root}: no {decide} videos to choose a checkpoint on, only "
            f"{_counts(manifest)}. Let decode carve some (validation: carve), or set protocol: last"
        )
    return Videos(train, validation, protocol, len(all_train) - len(train))


def videos_of(manifest: Manifest, split: str) -> list[VideoRecord]:
    """All labelled videos of a split, also those that cannot be read: they count as mistakes."""
    if split == "val" and manifest.val_is_test:
        split = "test"
    found = _labelled(manifest, split)
    if not found:
        raise DataError(
            f"{manifest.root}: there are no labelled {split} videos, only {_counts(manifest)}"
        )
    return found


def _labelled(manifest: Manifest, split: str) -> list[VideoRecord]:
    return [r for r in manifest.records if r.split == split and r.label is not None]


def _counts(manifest: Manifest) -> str:
    counts = manifest.counts()
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no videos"
