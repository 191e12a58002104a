"""Two processes with half of every parameter each give the result of one process."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy_training import run as train

from pretrained_2d.networks.backbones import build
from pretrained_2d.training.outputs.metrics_log import read_metrics
from pretrained_2d.training.recipe import Recipe
from tests.processes import ACCELERATE, run

HERE = Path(__file__).parents[1]
OPTIONS = {"image_size": 6, "width": 6, "depth": 2, "num_classes": 3, "dropout": 0.0}
SETTINGS = {
    "batch_size": 7, "drop_last": False, "epochs": 2, "mixup": 0, "cutmix": 0, "keep_last": 9,
    "gradient_checkpointing": True, "accumulation": 2, "checkpoint_every_steps": 5,
}  # fmt: skip
SCRIPT = """
import shutil, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
from toy_training import run
from torch import distributed
from pretrained_2d.networks.backbones import build
from pretrained_2d.training import learner
original = learner.sharded_copy
def counted(network, device):
    result = original(network, device)
    held = sum(each.to_local().numel() for each in result.parameters())
    (out / f"held_{distributed.get_rank()}").write_text(str(held))
    return result
if __name__ == "__main__":
    learner.sharded_copy = counted
    out, settings, options = Path(sys.argv[2]), eval(sys.argv[3]), eval(sys.argv[4])
    for attempt in ("whole", "resumed"):
        torch.manual_seed(0)
        network = build("isotropic", **options)
        run(out, network, sharding="full", **settings)
        assert type(network).__name__ == "Isotropic"  # given back unsharded
        if attempt == "whole" and distributed.get_rank() == 0:
            shutil.copytree(out, out.with_name("whole"))
            (out / "config.json").unlink()
            shutil.rmtree(out / "state/step_000000012")
            shutil.rmtree(out / "state/step_000000010")
        distributed.barrier()
    distributed.destroy_process_group()
"""


def network():
    torch.manual_seed(0)
    return build("isotropic", **OPTIONS)


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.slow
def test_sharded_training_equals_one_process_and_resumes(tmp_path):
    script, one, two = tmp_path / "script.py", tmp_path / "one", tmp_path / "two"
    script.write_text(SCRIPT)
    train(one, network(), sharding="full", **SETTINGS)  # nothing to share: an ordinary run
    run([*ACCELERATE, script, HERE, two, repr(SETTINGS), repr(OPTIONS)])
    total = sum(parameter.numel() for parameter in network().parameters())
    held = [int((two / f"held_{rank}").read_text()) for rank in range(2)]
    assert sum(held) == total
    assert max(held) < 0.7 * total
    logs = [read_metrics(folder / "metrics.jsonl") for folder in (one, two)]
    assert len(logs[0]) == len(logs[1])
    for alone, together in zip(*logs, strict=True):
        assert alone["step"] == together["step"]
        for name in ("loss", "accuracy", "gradient_norm"):
            assert alone.get(name, 0) == pytest.approx(together.get(name, 0), rel=1e-4), name
    for name, tensor in weights(tmp_path / "whole").items():
        assert torch.equal(tensor, weights(two)[name]), f"{name} differs after a resume"
        assert torch.allclose(tensor, weights(one)[name], atol=1e-4), name

    # One process resumes what two began: the state is an ordinary one.
    for step in (10, 12):
        shutil.rmtree(two / f"state/step_{step:09d}")
    train(two, network(), **SETTINGS)
    assert [line["step"] for line in read_metrics(two / "metrics.jsonl")][-1] == 12
    for name, tensor in weights(two).items():
        assert torch.allclose(tensor, weights(one)[name], atol=1e-4), name


def test_an_automatic_batch_size_needs_whole_parameters():
    with pytest.raises(ValueError, match="batch_size is auto, expected a number with sharding"):
        Recipe(batch_size="auto", sharding="full")
