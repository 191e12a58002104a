"""The compiled form of the layer: an optional accelerator for CPUs.

The layer is written in plain torch (`axis.py`, `kernels/`, `conv.py`). This package computes four
of its steps with loops that numba compiles, several times as fast. Every other module of `s4nd`
uses it through the names below only, and can be read without it.

What it offers, and the plain form that it replaces:

- `rank_one_taps`: from parameters of an axis whose P has one column to taps. `kernels/low_rank.py`.
- `toeplitz_matrices`: from taps to Toeplitz matrices. `conv.toeplitz`.
- `separable_product`: from signal, skip and matrices to the output of a depthwise layer of rank 1
  with two axes or more. `conv.convolve_matmul`.
- `step_product`: from matrices along one axis and a signal with channels last to their product. A
  product of tensors that are transposed in memory.

When it is used: `usable(tensor)` is true for float32 and float64 tensors on a CPU, if numba works
and the switch is on. Everything else runs in plain torch: other devices, half precision (the
products; kernels are float32), more columns of P, diagonal state spaces, the transforms of
`torch.func` and forward-mode derivatives, and `torch.export`, whose programs then need torch only.

How it behaves: the steps are operators of `torch.library` with fake and autograd registrations, so
that `torch.compile`, `make_fx`, `torch.jit.trace` and fake tensors see one opaque operator each.
They have first derivatives only; an error names `disabled()` where second ones are asked for.

How to turn it off: `S4ND_COMPILED=0` in the environment, or

    with s4nd.compiled.disabled():
        ...

for the calls inside, in this thread. A graph that was compiled before keeps the form it has.

What happens if numba does not work (missing, too new, `NUMBA_DISABLE_JIT=1`, ...): one warning with
the reason, and plain torch. Without a writable cache folder (`NUMBA_CACHE_DIR`): one warning, and
the loops are compiled again in each process. Damaged files in that folder are replaced. The loops
run in torch's threads if torch uses GNU OpenMP, else in one, with one warning.

The files: `operators.py` registers the operators. `planes.py` (with the products of `tiles.py`)
computes `separable_product` on small images, `products.py` on the others, with torch's matrix
products; `memory_order.py` is what they know of memory. `toeplitz.py` computes `toeplitz_matrices`,
`steps.py` computes `step_product`, and `rank_one.py` computes `rank_one_taps`, with loops over
state spaces (`state_spaces.py`), channels (`channels.py`) and pole pairs (`pole_pairs.py`).
`jit.py` compiles the loops and runs them in threads.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import torch
from torch import Tensor

from s4nd.compiled.operators import (
    rank_one_taps,
    separable_product,
    step_product,
    toeplitz_matrices,
)

__all__ = [
    "available",
    "disabled",
    "rank_one_taps",
    "separable_product",
    "step_product",
    "toeplitz_matrices",
    "usable",
]

VARIABLE = "S4ND_COMPILED"
_switch: ContextVar[bool] = ContextVar("s4nd_compiled", default=True)


@contextmanager
def disabled() -> Iterator[None]:
    """Plain torch for every call inside, in this thread."""
    token = _switch.set(False)
    try:
        yield
    finally:
        _switch.reset(token)


def usable(tensor: Tensor) -> bool:
    """Whether the operators take this tensor."""
    known = tensor.dtype in (torch.float32, torch.float64)
    return tensor.device.type == "cpu" and known and _switched_on()


def _switched_on() -> bool:
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    forward_mode = torch.autograd.forward_ad._current_level >= 0
    special = transformed or forward_mode or torch.compiler.is_exporting()
    return _switch.get() and not special and available()


# torch.compile calls it while it traces, in place of tracing it.
torch.compiler.assume_constant_result(_switched_on)  # type: ignore[no-untyped-call]


@cache
def available() -> bool:
    """Whether numba works here; tried once, with one warning if it does not."""
    value = os.environ.get(VARIABLE, "1")
    if value not in ("0", "1"):
        raise ValueError(f"{VARIABLE} must be 0 or 1, got {value!r}")
    if value == "0":
        return False
    try:
        from s4nd.compiled import jit  # loads the compiler

        jit.check()
    except Exception as error:  # noqa: BLE001  (an installation can be broken in any way)
        warnings.warn(
            f"S4ND layers run in plain torch, which is slower on a CPU, because numba does not "
            f"work: {type(error).__name__}: {error}. Install a numba that suits this Python and "
            f"NumPy, or set {VARIABLE}=0 to silence this warning",
            stacklevel=2,
        )
        return False
    return True
