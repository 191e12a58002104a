"""Which videos are for training, for choosing a checkpoint, and for testing."""

from collections.abc import Sequence
from dataclasses import dataclass

from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.errors import DataError
from videopipe.finetuning.finetune_config import Protocol


@dataclass(frozen=True)
class Videos:
    """The videos of a fine-tuning, and the protocol in effect."""

    train: Sequence[VideoRecord]
    validation: Sequence[VideoRecord]  # empty: the last checkpoint is kept
    protocol: Protocol
    left_out: int  # training videos that cannot be read


def choose_videos(manifest: Manifest, protocol: Protocol) -> Videos:
    """Divide the labelled videos of a manifest by protocol.

    "validation": train on train, choose on val. "paper": train on train and val, choose on test.
    "last": train on train and val, keep the last checkpoint. If the validation set of the manifest
    is its test set, "validation" is the protocol of the paper.
    """
    if protocol == "validation" and manifest.val_is_test:
        protocol = "paper"
    learn = ("train",) if protocol == "validation" else ("train", "val")
    all_train = [r for r in manifest.records if r.split in learn and r.labelled]
    train = [record for record in all_train if record.usable]
    if not train:
        raise DataError(f"{manifest.root}: no readable training video among {_counts(manifest)}")
    decide = {"validation": "val", "paper": "test", "last": None}[protocol]
    validation = [] if decide is None else _labelled(manifest, decide)
    if decide is not None and not validation:
        raise DataError(
            f"{manifest.root}: no {decide} videos to choose a checkpoint on, only "
            f"{_counts(manifest)}. Let decode split some off (validation: carve), "
            "or set protocol: last"
        )
    return Videos(train, validation, protocol, len(all_train) - len(train))


def videos_of(manifest: Manifest, split: str) -> list[VideoRecord]:
    """All labelled videos of a split, including unreadable ones, which count as mistakes."""
    if split == "val" and manifest.val_is_test:
        split = "test"
    found = _labelled(manifest, split)
    if not found:
        raise DataError(
            f"{manifest.root}: there are no labelled {split} videos, only {_counts(manifest)}"
        )
    return found


def labelled(manifest: Manifest) -> list[VideoRecord]:
    """All labelled videos, of any split."""
    return [record for record in manifest.records if record.labelled]


def _labelled(manifest: Manifest, split: str) -> list[VideoRecord]:
    return [record for record in labelled(manifest) if record.split == split]


def _counts(manifest: Manifest) -> str:
    counts = manifest.counts()
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "no videos"
