"""The saved state from which a training run resumes, written atomically.

The order of the data, augmentation, dropout and the learning rate are functions of the step. The
state holds weights, optimiser, average, scaler, the step, and the report so far.
"""

import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch

from pretrained_2d.atomic import new_folder
from pretrained_2d.errors import TrainingError

FILE = "state.pt"


def save_state(folder: Path, step: int, state: dict[str, Any], *, keep_last: int) -> Path:
    """Write the state of `step` below `folder` and remove all but the newest `keep_last`."""
    target = folder / f"step_{step:09d}"
    with new_folder(target) as beside:
        torch.save({**state, "step": step}, beside / FILE)
    for older in saved_states(folder)[:-keep_last]:
        shutil.rmtree(older)
    return target


def saved_states(folder: Path) -> list[Path]:
    """Whole states, oldest first."""
    return sorted(path.parent for path in folder.glob(f"step_*/{FILE}"))


def load_newest(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest state that can be read; None when nothing was saved yet."""
    states = saved_states(folder)
    for state in reversed(states):
        try:
            content = torch.load(state / FILE, map_location="cpu", weights_only=True)
        except (RuntimeError, OSError, EOFError, ValueError, pickle.UnpicklingError) as error:
            warnings.warn(f"{state} is damaged ({error}); trying the one before", stacklevel=2)
            continue
        return state, content
    if states:
        raise TrainingError(
            f"none of the {len(states)} training states in {folder} can be read;"
            " remove that folder to train from the start"
        )
    return None


def remove_partial_states(folder: Path) -> None:
    """Remove what a killed process left half-written or half-removed."""
    whole = saved_states(folder)
    for pattern in ("step_*", ".*.partial", ".*.older"):
        for leftover in folder.glob(pattern):
            if leftover not in whole:
                shutil.rmtree(leftover, ignore_errors=True)


def require_same_settings(path: Path, saved: dict[str, Any], given: dict[str, Any]) -> None:
    """A run resumes only with the settings it began with.

    Raises:
        TrainingError: naming every setting that differs.
    """
    differing = [
        f"{name} was {saved.get(name)!r} and is now {value!r}"
        for name, value in given.items()
        if _plain(saved.get(name)) != _plain(value)
    ]
    if differing:
        raise TrainingError(
            f"{path} belongs to another run: {'; '.join(differing)}. Give the old settings to"
            " resume, or another folder to start again"
        )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
