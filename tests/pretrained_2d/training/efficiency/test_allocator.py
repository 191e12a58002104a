"""Page faults of a repeated allocation, with and without freed memory being kept.

Each case is a process of its own: what other tests have freed could serve the allocations.
"""

import ctypes
import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc"
)

PROGRAM = """
import json, resource, sys
from contextlib import nullcontext
from pathlib import Path
import torch
from pretrained_2d.training.efficiency.allocator import keeping_freed_memory

def faults_of_ten_blocks():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(2**24)  # 64 MiB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

with keeping_freed_memory(torch.device(sys.argv[1])):
    faults_of_ten_blocks()
    inside, kept = faults_of_ten_blocks(), resident_bytes()
behind = resident_bytes()
print(json.dumps([inside, kept - behind, faults_of_ten_blocks(), resource.getpagesize()]))
"""


def observed(device: str) -> tuple[int, int, int, int]:
    """Faults inside, bytes returned at the end, faults behind; pages of one block."""
    command = [sys.executable, "-c", PROGRAM, device]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    inside, returned, behind, page = json.loads(done.stdout)
    return inside, returned, behind, 2**26 // page


def test_blocks_are_faulted_in_once_and_returned_at_the_end() -> None:
    inside, returned, behind, pages = observed("cpu")
    assert inside < pages / 10
    assert returned > 2**25
    assert behind > 5 * pages / 512  # transparent huge pages have 512 pages


def test_other_devices_are_left_alone() -> None:
    inside, _, _, pages = observed("meta")
    assert inside > 5 * pages / 512
