"""Signals whose channels lead, as products want them, and the way back.

A signal is (batch, channels, a, b, last) here: `last` is the last axis, b the one before it, a all
the others as one. Products want (channels, b, a, batch, last).
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor, nn

HAS_NUMBA = find_spec("numba") is not None


def has_machine_code(tensor: Tensor) -> bool:
    """For ordinary numbers on a CPU, where numba is installed and nothing is traced."""
    ordinary = type(tensor) in (Tensor, nn.Parameter) and tensor.device.type == "cpu"
    known = tensor.dtype in (torch.float32, torch.float64)
    return ordinary and known and HAS_NUMBA and not torch.compiler.is_compiling()


def channels_lie_last(signal: Tensor) -> bool:
    """As networks of linear layers leave them: (batch, a, b, last, channels) in memory."""
    return signal.permute(0, 2, 3, 4, 1).is_contiguous() and not signal.is_contiguous()


def gather(signal: Tensor) -> Tensor:
    """(batch, channels, a, b, last) -> (channels, b, a, batch, last), contiguous."""
    if has_machine_code(signal) and channels_lie_last(signal):
        from s4nd import machine_code, moving  # loads a compiler

        numbers = signal.detach().permute(0, 2, 3, 4, 1).numpy()
        return torch.from_numpy(moving.gather(numbers, machine_code.team()))
    return signal.permute(1, 3, 2, 0, 4).contiguous()


def scatter(product: Tensor, signal: Tensor, skip: Tensor) -> Tensor:
    """product (channels, b, a, batch, last) + skip * signal, in the layout of the signal."""
    last = signal.permute(0, 2, 3, 4, 1)
    if not has_machine_code(signal):
        return (last * skip).add_(product.permute(3, 2, 1, 4, 0)).permute(0, 4, 1, 2, 3)
    from s4nd import machine_code, moving

    if channels_lie_last(signal):
        numbers = (x.detach().numpy() for x in (product, last, skip))
        found = torch.from_numpy(moving.scatter_last(*numbers, machine_code.team()))
        return found.permute(0, 4, 1, 2, 3)
    numbers = (x.detach().numpy() for x in (product, signal.contiguous(), skip))
    return torch.from_numpy(moving.scatter(*numbers, machine_code.team()))


def dots(first: Tensor, second: Tensor) -> Tensor:
    """(channels, count) each -> (channels,)."""
    if has_machine_code(first):
        from s4nd import machine_code, moving

        numbers = first.numpy(), second.numpy()
        return torch.from_numpy(moving.dots(*numbers, machine_code.team()))
    return torch.bmm(first[:, None], second[..., None]).flatten()  # on a CPU slow
