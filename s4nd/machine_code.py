"""Compiling loops with numba, which brings its compiler with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numba
import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
REORDERED = {"reassoc", "contract", "nsz"}  # sums may change their order


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Machine code, kept beside the function's file or in the user's cache."""
    compiler = partial(numba.njit, nogil=True, fastmath=REORDERED, error_model="numpy")
    try:
        return compiler(function, cache=True)
    except RuntimeError:  # neither place can be written
        return compiler(function)
