"""Keep the memory that a training step frees, so that the next step does not fault it in again.

glibc returns large blocks to the kernel as soon as they are freed. The activations and gradients
of a step on a CPU are such blocks, and every first touch of a page of a new block costs a page
fault. A training step allocates the same sizes again and again, so the pages can be kept.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# Parameters of mallopt(3), from malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_KEPT_BYTES = 2**30  # larger blocks are still returned when they are freed
NEVER = 2**31 - 1  # the largest value that mallopt takes
# The limits up to which glibc adapts both thresholds by itself.
USUAL_MMAP_BYTES, USUAL_TRIM_BYTES = 2**25, 2**26


@contextmanager
def keeping_freed_memory(device: torch.device) -> Iterator[None]:
    """Keep freed blocks on a CPU with glibc; return them to the kernel at the end."""
    libc = ctypes.CDLL(None) if device.type == "cpu" else None
    if libc is None or not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim"):
        yield
        return
    libc.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
    libc.mallopt(M_TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        libc.mallopt(M_MMAP_THRESHOLD, USUAL_MMAP_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, USUAL_TRIM_BYTES)
        libc.malloc_trim(0)
