"""Randomness as a function of position, not of history.

Every random decision is seeded by its position (seed, epoch, index, …). A sample is therefore the
same for any number of workers and processes, and a resumed run needs no random state.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch


class Sample(NamedTuple):
    """One drawing of an item. Samplers yield these; data sets are indexed with them."""

    item: int
    epoch: int = 0
    repeat: int = 0


def derive_seed(*position: int | str) -> int:
    """A 63-bit seed from any position, well mixed and the same on every machine."""
    digest = hashlib.blake2b(repr(position).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@contextmanager
def seeded(*position: int | str) -> Iterator[None]:
    """Seed Python, NumPy and torch (CPU) from a position, and restore them afterwards."""
    seed = derive_seed(*position)
    python_state, numpy_state = random.getstate(), np.random.get_state()
    torch_state = torch.get_rng_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # torch.manual_seed also seeds devices, and where there is none formats a traceback each time.
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)
