"""Gradient checkpointing: the inside of blocks is computed again in the backward pass.

Only the inputs of blocks are kept. The gradient is the same; a step takes one more forward pass.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint


def recompute_blocks(network: nn.Module) -> list[str]:
    """Make every block of a network recompute itself in training; their names.

    A block is an element of a ModuleList or Sequential that has modules inside, and no block
    within. The state dict stays the same. `release_blocks` undoes it. Copy a network before,
    because later copies would run the blocks of the original.
    """
    blocks = find_blocks(network)
    for block in blocks.values():
        block.forward = _Recomputed(block)
    return list(blocks)


def release_blocks(network: nn.Module) -> None:
    """Restore the original forward of blocks."""
    for module in network.modules():
        if isinstance(module.__dict__.get("forward"), _Recomputed):
            del module.__dict__["forward"]


def find_blocks(network: nn.Module) -> dict[str, nn.Module]:
    """Name -> module of the innermost elements of lists that have modules inside."""
    elements = {
        f"{name}.{child_name}" if name else child_name: child
        for name, module in network.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential)
        for child_name, child in module.named_children()
        if any(child.children()) and any(True for _ in child.parameters())
    }
    containers = (nn.ModuleList, nn.Sequential)
    return {
        name: module
        for name, module in elements.items()
        if not isinstance(module, containers)
        and not any(other.startswith(f"{name}.") for other in elements)
    }


class _Recomputed:
    """The forward of a block under gradient checkpointing, in training only."""

    def __init__(self, block: nn.Module) -> None:
        self.block, self.original = block, block.forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.block.training:
            return self.original(*args, **kwargs)
        contexts: Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]
        contexts = partial(_contexts, self.block)
        return checkpoint(self.original, *args, use_reentrant=False, context_fn=contexts, **kwargs)


def _contexts(
    block: nn.Module,
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), _unchanged_statistics(block)


@contextmanager
def _unchanged_statistics(block: nn.Module) -> Iterator[None]:
    """A second forward pass must not count twice in the running statistics of batch norms."""
    norms = [module for module in block.modules() if isinstance(module, _BatchNorm)]
    buffers = [buffer for norm in norms for buffer in norm.buffers()]
    saved = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        for buffer, value in zip(buffers, saved, strict=True):
            buffer.data.copy_(value)  # without a new version: autograd holds these tensors
