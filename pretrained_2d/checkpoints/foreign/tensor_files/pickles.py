"""Pickles of tensors and arrays, read through an allow-list of our own."""

import argparse
import collections
import io
import pickle
import re
import zipfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pretrained_2d.checkpoints.foreign.tensor_files.stored_settings import SETTINGS

# NumPy's constructors are written under two names, by its versions before and since 2.
_multiarray = import_module(
    "numpy._core.multiarray" if hasattr(np, "_core") else "numpy.core.multiarray"
)
_ARRAYS = {
    f"numpy.{core}.multiarray.{name}": getattr(_multiarray, name)
    for name in ("scalar", "_reconstruct")
    for core in ("core", "_core")
}
# Plain data that training programs store beside the weights; loading them runs nothing.
PLAIN_DATA: list[Any] = [
    argparse.Namespace,
    np.dtype,
    np.ndarray,
    *(type(np.dtype(kind)) for kind in (*np.typecodes["AllInteger"], *np.typecodes["AllFloat"])),
    *(type(np.dtype(kind)) for kind in "?US"),
    *((function, name) for name, function in {**_ARRAYS, **SETTINGS}.items()),
]


_STORAGES = {
    "Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16,
    "Int": torch.int32, "Long": torch.int64, "Half": torch.float16, "BFloat16": torch.bfloat16,
    "Float": torch.float32, "Double": torch.float64,
}  # fmt: skip


class RefusedPickleError(Exception):
    """A pickle names a class that is not on the allow-list; the message is its name."""


def _storage(content: bytes) -> Any:
    """Load a storage inside a plain pickle, which torch writes with a nested `torch.save`."""
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How pickles of protocol 2 hold bytes."""
    if encoding != "latin1":
        raise RefusedPickleError(f"_codecs.encode to {encoding}")
    return text.encode("latin1")


def _from_buffer(buffer: bytes, dtype: np.dtype[Any], shape: Any, order: Any) -> Any:
    """An array of a pickle of protocol 5."""
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


ALLOWED: Mapping[str, Any] = {
    **SETTINGS,
    "collections.OrderedDict": collections.OrderedDict,
    "argparse.Namespace": argparse.Namespace,
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    **_ARRAYS,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "numpy._core.numeric._frombuffer": _from_buffer,
    "_codecs.encode": _encode,
    "torch._utils._rebuild_tensor_v2": torch._utils._rebuild_tensor_v2,
    "torch._utils._rebuild_parameter": torch._utils._rebuild_parameter,
    "torch.storage._load_from_bytes": _storage,
    **{f"torch.{name}Storage": dtype for name, dtype in _STORAGES.items()},
    "torch.Size": torch.Size,
    "torch.device": torch.device,
    **{str(kind): kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only what ALLOWED names; nothing is imported."""
        full = f"{module}.{name}"
        if full not in ALLOWED:
            raise RefusedPickleError(full)
        return ALLOWED[full]


def load_plain_pickle(path: Path) -> Any:
    """The content of a pickle; text of Python 2 is read as latin1.

    Raises RefusedPickleError that names the first class which is not on the allow-list.
    """
    with path.open("rb") as file:
        return _Unpickler(file, encoding="latin1").load()


class _ArchiveUnpickler(_Unpickler):
    """The pickle inside a zip file of torch.save, with its tensors in files of their own."""

    def __init__(self, archive: zipfile.ZipFile, pickled: str) -> None:
        super().__init__(archive.open(pickled))
        self.archive = archive
        self.folder = pickled.removesuffix("data.pkl") + "data"

    def persistent_load(self, reference: Any) -> Any:
        """A storage: its type, its file, its device, its length."""
        _, kind, key, *_ = reference
        content = bytearray(self.archive.read(f"{self.folder}/{key}"))
        numbers = torch.frombuffer(content, dtype=torch.uint8) if content else torch.empty(0)
        storage: Any = torch.TypedStorage
        return storage(wrap_storage=numbers.untyped_storage(), dtype=kind, _internal=True)


def load_newer_archive(path: Path) -> Any:
    """A zip file of torch.save with pickle protocol 4 or 5, which safe `torch.load` does not read.

    Raises RefusedPickleError as `load_plain_pickle` does.
    """
    with zipfile.ZipFile(path) as archive:
        pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return _ArchiveUnpickler(archive, pickled).load()


def class_in(message: str) -> str:
    """The class that an error of `torch.load` names, or an empty string."""
    named = re.search(r"GLOBAL (\S+)|<class '(\S+)'>|function (?:<\w+ )?(\S+)", message)
    return next(filter(None, named.groups()), "") if named else ""
