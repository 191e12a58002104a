"""A run that is killed and resumed gives the same bits as an uninterrupted one."""

import hashlib
import os
import random
import shutil
import signal
import time

import pytest
import torch
from toy_training import Colours, network, run

from pretrained_2d.training.outputs.metrics_log import read_metrics

CLOCKS = {
    "samples_per_second",
    "step_seconds",
    "data_seconds",
    "memory_bytes",
    "eta_seconds",
    "time",
}
KILLS = 12


class Slow(Colours):
    """Images that load slowly, so that a kill happens in the middle of a batch."""

    def __getitem__(self, sample):
        time.sleep(0.001)
        return super().__getitem__(sample)


def train_in_a_child(out) -> int:
    """Train in a forked process, which has torch already; returns its process id."""
    child = os.fork()
    if child:
        return child
    torch.set_num_threads(1)
    try:
        run(out, network(), epochs=8, data=Slow())
    finally:
        os._exit(0 if (out / "config.json").is_file() else 1)


def digests(out):
    """Digests of all files of a run, without times."""
    folders = ("", "last", "best/accuracy", "best/loss")
    files = [out / folder / "model.safetensors" for folder in folders]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def log_without_clocks(out):
    return [
        {key: value for key, value in record.items() if key not in CLOCKS}
        for record in read_metrics(out / "metrics.jsonl")
    ]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_random_kills_change_no_bit(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    began = time.monotonic()
    os.waitpid(train_in_a_child(whole), 0)
    seconds = time.monotonic() - began
    assert (whole / "config.json").is_file()

    draw, kills = random.Random(7), 0
    while not (killed / "config.json").is_file():
        child = train_in_a_child(killed)
        if kills < KILLS:
            time.sleep(draw.uniform(0.02, 0.12) * seconds)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        elif kills < 10:  # the run ended before the kills: repeat with earlier ones
            shutil.rmtree(killed)
            kills, seconds = 0, seconds / 2
        else:
            assert os.WEXITSTATUS(status) == 0
    assert kills >= 10
    assert digests(killed) == digests(whole)
    assert log_without_clocks(killed) == log_without_clocks(whole)
    states = [sorted(path.name for path in (out / "state").iterdir()) for out in (whole, killed)]
    assert states[0] == states[1], "nothing half-written is left"
