"""Two processes give the result of one, also for batches that cannot be divided evenly."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy_training import network
from toy_training import run as train

from pretrained_2d.training.outputs.metrics_log import read_metrics
from tests.processes import ACCELERATE, run

HERE = Path(__file__).parent
SETTINGS = {"batch_size": 7, "drop_last": False, "mixup": 0, "cutmix": 0, "accumulation": 1}
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from toy_training import network, run
from torch import distributed
if __name__ == "__main__":
    out = Path(sys.argv[2])
    run(out, network(dropout=0.0, batch_norm=False), **eval(sys.argv[3]))
    (out / f"rank_{distributed.get_rank()}").touch()
    distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path):
    """`test_against_plain_loop.py` compares the rest: mixing, accumulation, phases."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    outs = [tmp_path / "one", tmp_path / "two"]
    train(outs[0], network(dropout=0.0, batch_norm=False), **SETTINGS)
    run([*ACCELERATE, script, HERE, outs[1], repr(SETTINGS)])
    assert sorted(path.name for path in outs[1].glob("rank_*")) == ["rank_0", "rank_1"]
    logs = [read_metrics(out / "metrics.jsonl") for out in outs]
    assert len(logs[0]) == len(logs[1]), "written once, by one process"
    for one, two in zip(*logs, strict=True):
        assert (one["kind"], one["step"], one.get("samples")) == (
            two["kind"], two["step"], two.get("samples"),
        )  # fmt: skip
        assert one["loss"] == pytest.approx(two["loss"], rel=1e-4)
        assert one["accuracy"] == pytest.approx(two["accuracy"], abs=1e-6)
    weights = [load_file(out / "last/model.safetensors") for out in outs]
    for name, tensor in weights[0].items():
        assert torch.allclose(tensor, weights[1][name], atol=1e-4), name
