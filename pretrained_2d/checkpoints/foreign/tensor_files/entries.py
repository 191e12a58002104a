"""The named tensors inside the wrappers of training programs: `state_dict`, `ema`, `module`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pretrained_2d.errors import CheckpointError

# Where training programs put the weights among optimiser states, epochs and settings. When several
# are there the first is taken, and the report names the others.
ENTRIES = (
    "state_dict", "model", "model_state", "model_state_dict", "module", "net", "network", "params",
    "weights", "backbone", "encoder", "state_dict_ema", "model_ema", "ema_state_dict", "params_ema",
    "ema", "ema_model", "model_ema_state_dict", "teacher", "student", "target_encoder", "visual",
)  # fmt: skip


def unwrap(
    path: Path, content: Mapping[Any, Any], entry: str | None
) -> tuple[dict[str, Tensor], str, tuple[str, ...]]:
    """Open wrappers: the named tensors, where they were, and the other entries beside them.

    entry: a key to follow, or a prefix of names. Raises CheckpointError that lists what is there.
    """
    trail: list[str] = []
    others: tuple[str, ...] = ()
    while not _is_state_dict(content):
        found = _entries(content)
        chosen = entry if entry in content and entry not in trail else next(iter(found), None)
        if chosen is None or not isinstance(content[chosen], Mapping):
            sets = [str(name) for name, value in content.items() if _is_named_weights(value)]
            raise CheckpointError(
                f"{path} has no weights under a known name ({', '.join(ENTRIES[:6])}, …); it holds "
                f"{', '.join(map(str, list(content)[:10])) or 'nothing'}"
                + (f"; --entry chooses one of {', '.join(sets)}" if sets else "")
            )
        trail.append(chosen)
        others += tuple(name for name in found if name != chosen)
        content = content[chosen]
    tensors = {
        str(name): torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in content.items()
        if _is_tensor(value)
    }
    if entry is not None and entry not in trail:
        start = f"{entry.rstrip('.')}."
        tensors = {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
        trail.append(entry)
    if not tensors:
        raise CheckpointError(
            f"{path} has no entry {entry!r} and no names that begin with it; there are "
            f"{', '.join([*trail[:-1], *others]) or 'no entries'}"
        )
    return tensors, ".".join(trail), others


def _entries(content: Mapping[Any, Any]) -> list[str]:
    """Entries with weights: those of a known name, else the only one that holds weights."""
    found = [name for name in ENTRIES if _leads_to_tensors(content.get(name))]
    if found:
        return found
    unknown = [name for name, value in content.items() if _is_named_weights(value)]
    return unknown if len(unknown) == 1 else []


def _is_state_dict(content: Mapping[Any, Any]) -> bool:
    tensors = [value for value in content.values() if _is_tensor(value)]
    return bool(tensors) and 2 * len(tensors) >= len(content)


def _is_named_weights(value: Any) -> bool:
    """A state dict with names of layers in it, unlike the state of an optimiser."""
    return (
        isinstance(value, Mapping) and _is_state_dict(value) and any("." in str(n) for n in value)
    )


def _leads_to_tensors(value: Any) -> bool:
    return isinstance(value, Mapping) and (_is_state_dict(value) or bool(_entries(value)))


def _is_tensor(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiub" and value.dtype.isnative
    return isinstance(value, Tensor)
