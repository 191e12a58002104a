"""Splitting videos so that all clips of one recording are in the same split."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from pretrained_2d.randomness import derive_seed
from videopipe.dataset.layouts.listing import Item
from videopipe.errors import DataError


def carve_validation(items: Sequence[Item], fraction: float, seed: int) -> list[Item]:
    """Move about `fraction` of each class's training videos to "val", whole recordings at a time.

    Recordings are visited in a random order given by the seed. A recording is moved when more of
    its videos are still needed than not. A class keeps at least one training video.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"the validation fraction must lie between 0 and 1, got {fraction}")
    groups: dict[str, list[int]] = defaultdict(list)
    for position, item in enumerate(items):
        if item.split == "train":
            groups[group_name(item)].append(position)
    remaining = Counter(name for item in items if item.split == "train" for name in _classes(item))
    wanted = {label: max(1, round(count * fraction)) for label, count in remaining.items()}
    chosen: set[int] = set()
    for name in sorted(groups, key=lambda name: derive_seed(seed, "validation", name)):
        counts = Counter(label for place in groups[name] for label in _classes(items[place]))
        gain = sum(min(count, max(0, wanted[label])) for label, count in counts.items())
        leaves_some = all(remaining[label] > count for label, count in counts.items())
        if leaves_some and gain > sum(counts.values()) - gain:
            chosen.update(groups[name])
            for label, count in counts.items():
                wanted[label] -= count
                remaining[label] -= count
    return [
        replace(item, split="val") if position in chosen else item
        for position, item in enumerate(items)
    ]


def _classes(item: Item) -> tuple[str | None, ...]:
    """Its classes; videos without any are divided as one further class."""
    return item.classes or (None,)


def fold_of_groups(items: Sequence[Item], num_folds: int, fold: int) -> list[Item]:
    """Fold `fold` (from 0) of the recordings becomes "test", all others "train".

    As many folds as recordings is leave-one-out, in the alphabetical order of the recordings.
    """
    names = sorted({group_name(item) for item in items})
    if not 2 <= num_folds <= len(names):
        raise DataError(
            f"num_folds is {num_folds}; expected 2 to {len(names)}, "
            f"the number of recordings (or persons) found"
        )
    if not 0 <= fold < num_folds:
        raise DataError(f"fold is {fold}; expected 0 to {num_folds - 1}")
    if num_folds < len(names):
        names.sort(key=lambda name: derive_seed("fold", name))
    tested = set(names[fold::num_folds])
    return [
        replace(item, split="test" if group_name(item) in tested else "train") for item in items
    ]


def group_name(item: Item) -> str:
    """The recording of a video; a video of unknown origin is its own recording."""
    return item.group or str(item.path)
