"""What the report of a training says about memory."""

import torch

from pretrained_2d.training.efficiency.memory import peak_memory_bytes


def test_the_peak_of_a_process_is_in_bytes() -> None:
    peak = peak_memory_bytes(torch.device("cpu"))
    assert 2**25 < peak < 2**40  # a process that has imported torch
    assert peak % 1024 == 0  # whole pages
