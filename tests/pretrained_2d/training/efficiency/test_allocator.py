"""Page faults of a repeated allocation, with and without freed memory being kept."""

import ctypes
import resource
from pathlib import Path

import pytest
import torch

from pretrained_2d.training.efficiency.allocator import keeping_freed_memory

PAGES = 2**26 // resource.getpagesize()  # of a block of 64 MiB
CPU = torch.device("cpu")

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc"
)


def faults_of_ten_blocks() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**24)  # 64 MiB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_blocks_are_faulted_in_once():
    with keeping_freed_memory(CPU):
        faults_of_ten_blocks()
        assert faults_of_ten_blocks() < PAGES / 10


def test_blocks_return_to_the_kernel_at_the_end():
    with keeping_freed_memory(CPU):
        faults_of_ten_blocks()
        kept = resident_bytes()
    assert resident_bytes() < kept - 2**25
    assert faults_of_ten_blocks() > 5 * PAGES / 512  # transparent huge pages have 512 pages


def test_other_devices_are_left_alone():
    with keeping_freed_memory(torch.device("meta")):
        assert faults_of_ten_blocks() > 5 * PAGES / 512
