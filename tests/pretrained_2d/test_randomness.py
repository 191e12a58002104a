"""Seeds from positions: the same numbers, and no trace outside."""

import random

import numpy as np
import torch

from pretrained_2d.randomness import derive_seed, seeded


def test_a_position_gives_the_numbers_of_its_seed_and_nothing_outside_changes() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(()).item()

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    with seeded("order", 3):
        inside = random.random(), np.random.rand(), torch.rand(()).item()
    assert (random.random(), np.random.rand(), torch.rand(()).item()) == expected

    seed = derive_seed("order", 3)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    assert inside == (random.random(), np.random.rand(), torch.rand(()).item())
