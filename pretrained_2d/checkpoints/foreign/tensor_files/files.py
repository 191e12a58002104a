"""Read the tensors of a checkpoint of any program. Files are data: nothing in them is executed.

The kind of a file is recognised by its content, not by its name.
"""

import json
import pickle
import re
import struct
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.serialization import MAGIC_NUMBER

from pretrained_2d.checkpoints.foreign.tensor_files.entries import unwrap
from pretrained_2d.checkpoints.foreign.tensor_files.pickles import (
    PLAIN_DATA,
    RefusedPickleError,
    class_in,
    load_newer_archive,
    load_plain_pickle,
)
from pretrained_2d.errors import CheckpointError

# Weights in a folder: the usual names first, then the only file of a kind.
FOLDER_NAMES = (
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin.index.json",
    "pytorch_model.bin", "*.safetensors.index.json", "*.bin.index.json", "*.safetensors", "*.bin",
    "*.pth", "*.pt", "*.ckpt",
)  # fmt: skip
PART = re.compile(r"-0*(\d+)-of-0*(\d+)\.\w+$")
# First bytes of formats that are often given by mistake.
OTHER_FORMATS = {
    b"\x89HDF": "an HDF5 file (Keras)",
    b"GGUF": "a GGUF file",
    b"\x08\x07\x12": "an ONNX graph",
    b"\x08\x08\x12": "an ONNX graph",
    b"\x1f\x8b": "a gzip archive, to be unpacked first,",
}


@dataclass(frozen=True)
class TensorFile:
    """Named tensors and where in the file they were: `entry` is "" for a bare state dict."""

    path: Path
    tensors: dict[str, Tensor]
    entry: str = ""
    other_entries: tuple[str, ...] = ()


def read_tensors(path: Path, entry: str | None = None) -> TensorFile:
    """Read a checkpoint of any program: a file, a folder of one, or the index of several parts.

    entry: which of several sets of weights, if not the first known one: a key of the file, or a
    prefix of names such as `ema_model`.
    Raises CheckpointError that says what the file is and what to do.
    """
    path = _file(Path(path))
    content = _read_parts(path) if path.name.endswith(".index.json") else _read(path)
    if not isinstance(content, Mapping):
        raise CheckpointError(
            f"{path} holds a {type(content).__name__}, not named tensors; "
            "save model.state_dict() instead"
        )
    return TensorFile(path, *unwrap(path, content, entry))


def _file(path: Path) -> Path:
    if path.is_dir():
        for pattern in FOLDER_NAMES:
            found = sorted(path.glob(pattern))
            if len(found) == 1:
                return found[0]
        if any(path.glob("*.distcp")):
            raise CheckpointError(
                f"{path} is a distributed checkpoint; join it first: python -m "
                f"torch.distributed.checkpoint.format_utils dcp_to_torch {path} weights.pth"
            )
        names = ", ".join(sorted(each.name for each in path.iterdir())[:10]) or "nothing"
        raise CheckpointError(
            f"{path} is a folder without model.safetensors or one file of weights (it holds "
            f"{names}); name the file itself"
        )
    part = PART.search(path.name)
    if part is not None and int(part[2]) > 1:
        raise CheckpointError(
            f"{path} is part {part[1]} of {part[2]}; give the file that ends in .index.json, or "
            "the folder"
        )
    return path


def _read(path: Path) -> Any:
    """The content of one file, by its first bytes."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    size = path.stat().st_size
    if size == 0:
        raise CheckpointError(f"{path} is empty; copy or download it again")
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(b"version https://git-lfs"):
        raise CheckpointError(f"{path} is a Git LFS pointer, not the weights; run `git lfs pull`")
    for magic, what in OTHER_FORMATS.items():
        if start.startswith(magic):
            raise CheckpointError(f"{path} is {what} {_EXPECTED}")
    if start.lstrip()[:1] == b"<":
        raise CheckpointError(f"{path} is a web page, not weights; download the file itself")
    if _is_safetensors(start, size) or path.suffix == ".safetensors":
        return _read_safetensors(path)
    if start.startswith((b"PK", b"\x80")) or _is_old_tar(start):
        return _read_pickled(path)
    raise CheckpointError(f"{path} is damaged, or of an unknown format {_EXPECTED}")


_EXPECTED = (
    "that is not read; expected safetensors, or a PyTorch checkpoint (torch.save of a state_dict)"
)


def _is_safetensors(start: bytes, size: int) -> bool:
    """Eight bytes with the length of a JSON header, then the header."""
    if len(start) < 10 or start[8:9] != b"{":
        return False
    return bool(struct.unpack("<Q", start[:8])[0] <= size)


def _is_old_tar(start: bytes) -> bool:
    """torch.save before version 0.1.10 wrote a tar of parts; its first member is `sys_info`."""
    return start.startswith((b"sys_info", b"./"))


def _read_parts(index: Path) -> dict[str, Any]:
    """All tensors that an index assigns to files of its folder, each from its file."""
    if not index.is_file():
        raise CheckpointError(f"{index} does not exist")
    try:
        places = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = sorted(set(places.values()))
        if any(not isinstance(name, str) or Path(name).name != name for name in files):
            raise ValueError("weight_map names files outside its folder")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index} is not an index of weights in parts ({error})") from error
    missing = [name for name in files if not (index.parent / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{index} names {len(missing)} files that are missing, such as {missing[0]}; "
            "copy or download them too"
        )
    contents = {name: _read(index.parent / name) for name in files}
    lost = [name for name, file in places.items() if name not in contents[file]]
    if lost:
        raise CheckpointError(
            f"{index} places {lost[0]} in {places[lost[0]]}, which does not hold it; "
            "download all parts of one version"
        )
    return {name: contents[file][name] for name, file in places.items()}


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged or not a safetensors file ({error}); copy or download it again"
        ) from error


def _read_pickled(path: Path) -> Any:
    """What torch.save wrote, or a plain pickle of tensors and arrays."""
    if any(name.endswith(".npy") for name in _members(path)):
        raise CheckpointError(
            f"{path} is an archive of NumPy arrays, as JAX programs write; `videopipe adopt` reads "
            "those of ViTs and BiT ResNets with --architecture timm/NAME"
        )
    try:
        with torch.serialization.safe_globals(PLAIN_DATA), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an unusual pickle protocol
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if _is_torchscript(path) or "TorchScript" in str(error):
            raise CheckpointError(_TORCHSCRIPT.format(path)) from error
        return _read_unpickled(path, error)
    except (RuntimeError, EOFError, ValueError, KeyError, OSError, IndexError) as error:
        if _is_torchscript(path):
            raise CheckpointError(_TORCHSCRIPT.format(path)) from error
        if "magic number" in str(error):  # a plain pickle, which torch.load does not read
            return _read_unpickled(path, None)
        reason = str(error).strip().splitlines()
        raise CheckpointError(
            f"{path} is damaged or not a PyTorch checkpoint ({reason[0] if reason else 'empty'}); "
            "copy or download it again"
        ) from error


_TORCHSCRIPT = "{} is a TorchScript program; save its state_dict() and adopt that"


def _read_unpickled(path: Path, error_of_torch: pickle.UnpicklingError | None) -> Any:
    """A pickle that `torch.load` refuses: a plain one, or one of a newer protocol."""
    reason = str(error_of_torch or "")
    newer = "Unsupported operand" in reason
    archive = zipfile.is_zipfile(path)
    if archive and not newer:
        raise CheckpointError(_refusal(path, class_in(reason))) from error_of_torch
    try:
        content = load_newer_archive(path) if archive else load_plain_pickle(path)
    except RefusedPickleError as error:
        raise CheckpointError(_refusal(path, str(error))) from error
    except Exception as error:  # any bytes may follow the first
        if reason:
            raise CheckpointError(_refusal(path, class_in(reason))) from error
        raise CheckpointError(
            f"{path} is damaged or not a PyTorch checkpoint ({error}); copy or download it again"
        ) from error
    if content == MAGIC_NUMBER and newer:
        raise CheckpointError(
            f"{path} is in the old format of torch.save, with a pickle protocol above 3, which "
            f"PyTorch does not read without running code. {_SAVE_AGAIN}"
        )
    if content == MAGIC_NUMBER:
        raise CheckpointError(_refusal(path, class_in(reason)))
    return content


def _refusal(path: Path, named: str) -> str:
    return (
        f"{path} is refused: it holds Python objects{f' ({named})' if named else ''}, and "
        f"loading those can run any code. {_SAVE_AGAIN}"
    )


_SAVE_AGAIN = (
    "In the program that wrote it, save the tensors alone: "
    'torch.save(model.state_dict(), "weights.pth"), or as safetensors'
)


def _is_torchscript(path: Path) -> bool:
    return any(name.endswith("constants.pkl") for name in _members(path))


def _members(path: Path) -> list[str]:
    """Names inside a zip file; none for other and for damaged files."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        return []
