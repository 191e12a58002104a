"""The kernels of all layers of a network, generated together at the start of its forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from s4nd.cache import saved_tensor_hooks
from s4nd.kernels.kernel_sampling import KernelRequest, sample
from s4nd.layer import S4ND, Rate, ReadyKernels, without_autocast

# A layer, the key of its call, and its requests.
_Requests: TypeAlias = tuple[S4ND, object, list[KernelRequest]]


class Call(NamedTuple):
    """A layer that will be called, the axes of its signal and its rate."""

    layer: S4ND
    shape: Sequence[int]
    rate: Rate


@contextmanager
def sampled_together(calls: Sequence[Call], *, on_cpu: bool = False) -> Iterator[None]:
    """Generate the kernels that the layers will need inside, and hand them over.

    Generating the kernels of one layer takes some hundred small operations; generating those of all
    layers together takes hardly more. A layer that is called with another shape or rate than
    announced makes its own kernels. Layers are left out that reuse their kernels (in eval mode, or
    frozen), use the compiled form, or have sharded parameters. On a CPU nothing is generated
    together, because smaller tensors stay in the cache, unless the network is being compiled or
    `on_cpu` is set.
    """
    ready = _announced(calls, on_cpu=on_cpu)
    if ready:
        _hand_over(ready)
    try:
        yield
    finally:
        for layer, _, _ in ready:
            layer.given = None


def _announced(calls: Sequence[Call], *, on_cpu: bool) -> list[_Requests]:
    if not calls or not (on_cpu or launches_are_slow(calls[0].layer.D)):
        return []
    waiting = [(call.layer, *call.layer.wanted(call.shape, call.rate)) for call in calls]
    return [each for each in waiting if each[2]]


def launches_are_slow(parameter: Tensor) -> bool:
    """Whether launching small operations on its device takes longer than computing them."""
    return parameter.device.type != "cpu" or torch.compiler.is_compiling()


def _hand_over(ready: Sequence[_Requests]) -> None:
    device = ready[0][0].D.device.type
    with without_autocast(device):
        operators = sample([each for _, _, wanted in ready for each in wanted])
    hooks, first = saved_tensor_hooks(), 0
    for layer, key, wanted in ready:
        layer.given = ReadyKernels(key, hooks, operators[first : first + len(wanted)])
        first += len(wanted)
