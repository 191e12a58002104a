"""Errors that name the setting to lower when memory runs out, and the search for a batch size."""

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from torch import nn

from pretrained_2d.errors import TrainingError

LARGEST_AUTOMATIC_BATCH = 1024


EVALUATION_BATCH_TOO_LARGE = (
    "a batch of the evaluation does not fit in memory; lower its batch size (test_batch_size) or"
    " leave out the largest of test_sizes"
)


@contextmanager
def out_of_memory_as(message: str) -> Iterator[None]:
    """Turn running out of memory into an error with this message."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(message) from error


def training_batch_too_large(batch_size: int, accumulation: int) -> str:
    """The message for a step of the training."""
    return (
        f"a batch of {batch_size} in {accumulation} part(s) does not fit in memory. Raise"
        f" accumulation to {2 * accumulation} (same result, half the memory), lower"
        " batch_size, or set batch_size: auto"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the device or the machine ran out of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, Exception) and should_reduce_batch_size(error)


def largest_that_fits(num_items: int, smallest: int, attempt: Callable[[int], None]) -> int:
    """Halve from 1024 (or what there is) until `attempt(batch_size)` does not run out of memory."""
    size = LARGEST_AUTOMATIC_BATCH
    while size > max(num_items, smallest):
        size //= 2
    while True:
        try:
            attempt(size)
            return size
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        clear_device_cache(garbage_collection=True)
        if size // 2 < smallest:
            raise TrainingError(
                f"not even a batch of {size} fits in memory; use smaller inputs, a smaller"
                " network or precision: bf16"
            )
        size //= 2


@contextmanager
def leaving_no_trace(model: nn.Module) -> Iterator[None]:
    """Run the model in training without changing its buffers, gradients or the random state.

    Memory for two moments per parameter is allocated inside, as by the optimiser.
    """
    buffers = [buffer.clone() for buffer in model.buffers()]
    moments = [torch.zeros_like(p) for p in model.parameters() if p.requires_grad for _ in range(2)]
    try:
        with torch.random.fork_rng():
            yield
    finally:
        del moments
        model.zero_grad(set_to_none=True)
        for buffer, before in zip(model.buffers(), buffers, strict=True):
            buffer.copy_(before)


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory held so far: of the GPU, or of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # Linux counts in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
