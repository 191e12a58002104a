"""Plain pickles of tensors and arrays (`pickle.dump(state_dict)`), read through an allow-list."""

import argparse
import collections
import io
import pickle
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8", "i4", "i8", "u1", "?")),
    *((function, name) for name, function in _ARRAYS.items()),
]


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


ALLOWED: Mapping[str, Callable[..., Any]] = {
    "collections.OrderedDict": collections.OrderedDict,
    "argparse.Namespace": argparse.Namespace,
    "numpy.ndarray": np.ndarray,
    "numpy.dtype": np.dtype,
    **_ARRAYS,
    "_codecs.encode": _encode,
    "torch._utils._rebuild_tensor_v2": torch._utils._rebuild_tensor_v2,
    "torch._utils._rebuild_parameter": torch._utils._rebuild_parameter,
    "torch.storage._load_from_bytes": _storage,
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


def class_in(message: str) -> str:
    """The class that an error of `torch.load` names, or an empty string."""
    named = re.search(r"GLOBAL (\S+)", message)
    return named[1] if named else ""
