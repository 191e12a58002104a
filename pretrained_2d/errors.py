"""Errors of this package, with one base class; each is shown to users as one message."""

from collections.abc import Iterable
from difflib import get_close_matches


class PretrainedError(ValueError):
    """A problem that a user can fix: a wrong file, name or setting."""


class CheckpointError(PretrainedError):
    """A checkpoint is missing, damaged, foreign, or does not fit the network."""


class ImageDataError(PretrainedError):
    """A folder or file of images cannot be used as given."""


class TrainingError(PretrainedError):
    """Training cannot continue: the loss is not finite, or a batch does not fit in memory."""


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.4) -> str:
    """` (did you mean 'x' or 'y'?)` with the known names nearest to `name`; empty without any."""
    near = get_close_matches(name, list(known), most, cutoff)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
