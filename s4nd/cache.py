"""Caches of results across calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

if TYPE_CHECKING:
    from s4nd.axis import AxisStateSpace

MAX_ENTRIES = 8


def may_keep() -> bool:
    """Whether tensors made now are ordinary tensors, which may be cached for later calls.

    False while a call is traced or transformed and under a dispatch mode such as that of fake
    tensors: tensors made there belong to the trace. False while a CUDA graph is captured: tensors
    made there have no values before the graph is replayed.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return False
    started: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if started and torch.cuda.is_current_stream_capturing():
        return False
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    return not transformed and _get_current_dispatch_mode() is None


def saved_tensor_hooks() -> object:
    """The saved-tensor hooks of autograd that are active now, such as a checkpoint's, or None.

    A checkpointed block runs again in the backward pass, where it must save what it saved before.
    """
    if torch.compiler.is_compiling():
        return None
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


class Memo:
    """The last few results by key; thread-safe.

    A copied or unpickled memo is empty: it is not part of a layer's state.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self.max_entries = max_entries
        self._entries: dict[Hashable, Any] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The result of this key; made if it is not cached."""
        if not may_keep():
            return make()
        found = self._entries.get(key)
        if found is None:
            with torch.inference_mode(False):  # autograd may save it later
                found = make()
            with self._lock:
                while len(self._entries) >= self.max_entries:
                    self._entries.pop(next(iter(self._entries)))
                self._entries[key] = found
        return found

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return type(self), ()


class KernelCache(Memo):
    """The kernels of a layer per key (shape, rate, engine), until a parameter changes."""

    def __init__(self) -> None:
        super().__init__()
        self._state: list[object] = []

    def get_for(
        self, key: Hashable, spaces: Sequence[AxisStateSpace], make: Callable[[], list[Tensor]]
    ) -> list[Tensor]:
        """The tensors of this key, made without gradient."""
        parameters = [p for space in spaces for p in space.parameters()]
        if not may_keep() or any(p.is_inference() for p in parameters):
            return make()  # inference tensors have no version
        # In-place changes raise the version, `load_state_dict(assign=True)` replaces the tensors
        # (references are kept, so that an id is not reused), and the axis counts calls of `.to()`.
        state: list[object] = [(id(p), p, p._version) for p in parameters]
        state += [(space.conversions, space.bandlimit) for space in spaces]
        if state != self._state:
            self.clear()
            self._state = state
        with torch.no_grad():
            return self.get(key, make)

    def clear(self) -> None:
        """Remove all results and the references to the parameters."""
        super().clear()
        self._state = []
