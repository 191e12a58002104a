"""Whole training steps on a device that does not exist: see `fake_training.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NETWORKS = [
    "rebuilt", "images", "none", "i3d", "s3d", "center", "s4nd", "shift", "adapter", "attention",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_loop_takes_steps_without_reading_a_value_or_leaving_the_device(precision: str) -> None:
    """Mixup, accumulation, clipping, AdamW, the average, checkpointed blocks and an evaluation.

    A device can be registered once in a process, hence the program. float32: a device without
    double precision, such as MPS.
    """
    command = [sys.executable, "-m", "tests.integration.fake_training", precision]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == NETWORKS
