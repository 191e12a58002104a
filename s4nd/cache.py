"""Kernels that were made before, for as long as the parameters they came from are the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from s4nd.axis import AxisStateSpace

MAX_SHAPES = 8


class KernelCache:
    """What was made per key (shape, rate, ...), each with the state of the parameters at the time.

    A copied or unpickled cache is empty: it is not part of the layer's state.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[list[object], list[Tensor]]] = {}

    def get(
        self, key: Hashable, spaces: Sequence[AxisStateSpace], make: Callable[[], list[Tensor]]
    ) -> list[Tensor]:
        """The tensors of this key, made again if a parameter changed or gradients are recorded."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return make()
        parameters = [p for space in spaces for p in space.parameters()]
        if any(p.is_inference() for p in parameters):
            return make()  # nothing counts the changes of such tensors
        # In-place changes raise the version, `load_state_dict(assign=True)` gives other tensors
        # (they are kept, so an id is not used again), and `.to()` is counted by the axis.
        state: list[object] = [(id(p), p, p._version) for p in parameters]
        state += [(space.conversions, space.bandlimit) for space in spaces]
        found = self._entries.get(key)
        if found is None or found[0] != state:
            if key not in self._entries and len(self._entries) >= MAX_SHAPES:
                self._entries.pop(next(iter(self._entries)))
            found = self._entries[key] = (state, make())
        return found[1]

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[type[KernelCache], tuple[()]]:
        return KernelCache, ()
