"""Tensors out of files that others wrote: read, never executed."""

import argparse
import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from pretrained_2d.errors import CheckpointError

PICKLED = (".pth", ".pt", ".bin", ".ckpt", ".pyth", ".tar")
# Where training programs put the weights among optimiser states, epochs and settings. When several
# are there the first is taken, and the report names the others.
ENTRIES = (
    "state_dict",
    "model",
    "model_state",
    "model_state_dict",
    "module",
    "net",
    "network",
    "params",
    "weights",
    "state_dict_ema",
    "model_ema",
    "ema_state_dict",
    "params_ema",
    "ema",
    "teacher",
    "student",
)
# Plain data that training programs store beside the weights; loading them runs nothing. NumPy's are
# written under two names, by its versions before and since 2.
_multiarray = import_module(
    "numpy._core.multiarray" if hasattr(np, "_core") else "numpy.core.multiarray"
)
PLAIN_DATA: list[Any] = [
    argparse.Namespace,
    np.dtype,
    np.ndarray,
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i4", "i8", "u1", "?")),
    *(
        (getattr(_multiarray, name), f"numpy.{core}.multiarray.{name}")
        for name in ("scalar", "_reconstruct")
        for core in ("core", "_core")
    ),
]


@dataclass(frozen=True)
class TensorFile:
    """Named tensors and where in the file they were: `entry` is "" for a bare state dict."""

    path: Path
    tensors: dict[str, Tensor]
    entry: str = ""
    other_entries: tuple[str, ...] = ()


def read_tensors(path: Path, entry: str | None = None) -> TensorFile:
    """Read a checkpoint of any program.

    entry: which of several sets of weights, if not the first of ENTRIES.
    Raises CheckpointError that says what the file is and what to do.
    """
    path = _file(Path(path))
    content = _read_safetensors(path) if _is_safetensors(path) else _read_pickled(path)
    if not isinstance(content, Mapping):
        raise CheckpointError(
            f"{path} holds a {type(content).__name__}, not named tensors; "
            "save model.state_dict() instead"
        )
    return _unwrap(path, content, entry)


def _file(path: Path) -> Path:
    if path.is_dir():
        if (path / "model.safetensors.index.json").exists():
            raise CheckpointError(f"{path} holds weights in several parts; join them into one file")
        for name in ("model.safetensors", "pytorch_model.bin"):
            if (path / name).is_file():
                return path / name
        raise CheckpointError(f"{path} is a folder without model.safetensors; name the file itself")
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    if path.stat().st_size == 0:
        raise CheckpointError(f"{path} is empty; copy or download it again")
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{path} is a Git LFS pointer, not the weights; run `git lfs pull`")
    if start.lstrip()[:1] == b"<":
        raise CheckpointError(f"{path} is a web page, not weights; download the file itself")
    return path


def _is_safetensors(path: Path) -> bool:
    if path.suffix in PICKLED:
        return False
    if path.suffix == ".safetensors":
        return True
    raise CheckpointError(
        f"{path}: {path.suffix or 'a name without ending'!r} is not a kind of checkpoint that is "
        f"read; there are .safetensors, {', '.join(PICKLED)}"
    )


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged or not a safetensors file ({error}); copy or download it again"
        ) from error


def _read_pickled(path: Path) -> Any:
    try:
        with torch.serialization.safe_globals(PLAIN_DATA), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an unusual pickle protocol
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(_refusal(path, str(error))) from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError, IndexError) as error:
        if _is_torchscript(path):
            raise CheckpointError(
                f"{path} is a TorchScript program; save its state_dict() and adopt that"
            ) from error
        reason = str(error).strip().splitlines()
        raise CheckpointError(
            f"{path} is damaged or not a PyTorch checkpoint ({reason[0] if reason else 'empty'}); "
            "copy or download it again"
        ) from error


def _refusal(path: Path, reason: str) -> str:
    if "TorchScript" in reason or _is_torchscript(path):
        return f"{path} is a TorchScript program; save its state_dict() and adopt that"
    named = re.search(r"GLOBAL (\S+)", reason)
    return (
        f"{path} is refused: it holds Python objects{f' ({named[1]})' if named else ''}, and "
        "loading those can run any code. In the program that wrote it, save the tensors alone: "
        'torch.save(model.state_dict(), "weights.pth"), or as safetensors'
    )


def _is_torchscript(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("constants.pkl") for name in archive.namelist())


def _unwrap(path: Path, content: Mapping[Any, Any], entry: str | None) -> TensorFile:
    """Down through wrappers to the named tensors."""
    trail: list[str] = []
    others: tuple[str, ...] = ()
    while not _is_state_dict(content):
        found = [name for name in ENTRIES if _leads_to_tensors(content.get(name))]
        chosen = entry if entry in content and entry not in trail else next(iter(found), None)
        if chosen is None or not isinstance(content[chosen], Mapping):
            raise CheckpointError(
                f"{path} has no weights under a known name ({', '.join(ENTRIES[:6])}, …); "
                f"it holds {', '.join(map(str, list(content)[:10])) or 'nothing'}"
            )
        trail.append(chosen)
        others += tuple(name for name in found if name != chosen)
        content = content[chosen]
    if entry is not None and entry not in trail:
        raise CheckpointError(
            f"{path} has no entry {entry!r}; there are {', '.join([*trail, *others]) or 'none'}"
        )
    tensors = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    return TensorFile(path, tensors, ".".join(trail), others)


def _is_state_dict(content: Mapping[Any, Any]) -> bool:
    tensors = [value for value in content.values() if isinstance(value, Tensor)]
    return bool(tensors) and 2 * len(tensors) >= len(content)


def _leads_to_tensors(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return _is_state_dict(value) or any(_leads_to_tensors(value.get(name)) for name in ENTRIES)
