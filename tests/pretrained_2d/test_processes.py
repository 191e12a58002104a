"""Two processes with the same global batch do what one does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pretrained_2d.metrics_log import read_metrics

HERE = Path(__file__).parent
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from toy_training import network, run
from torch import distributed
if __name__ == "__main__":
    run(Path(sys.argv[2]), network(dropout=0.0, batch_norm=False), batch_size=int(sys.argv[3]),
        drop_last=sys.argv[4] == "drop", mixup=0.8 if sys.argv[4] == "drop" else 0,
        cutmix=1.0 if sys.argv[4] == "drop" else 0, accumulation=int(sys.argv[5]))
    if distributed.is_initialized():
        Path(sys.argv[2], f"rank_{distributed.get_rank()}").touch()
        distributed.destroy_process_group()
"""


def launch(script, processes, *arguments):
    command = [sys.executable, str(script), str(HERE), *map(str, arguments)]
    if processes > 1:
        # --cpu would start one process, whatever the number; the environment keeps GPUs out.
        launcher = ["-m", "accelerate.commands.launch", "--multi_gpu"]
        launcher += ["--num_processes", str(processes)]
        options = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
        command[1:1] = [*launcher, *options, "--main_process_port", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize(("batch_size", "last", "accumulation"), [(8, "drop", 2), (7, "keep", 1)])
def test_two_processes_equal_one(tmp_path, batch_size, last, accumulation):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    outs = [tmp_path / "one", tmp_path / "two"]
    for processes, out in enumerate(outs, start=1):
        launch(script, processes, out, batch_size, last, accumulation)
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
