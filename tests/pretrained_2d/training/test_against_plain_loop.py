"""`pretrain` gives the losses, evaluations and weights of a plain PyTorch loop.

Both compute in float32, ours in parts of a batch, so sums are rounded in another order. Losses
differ by about 1e-7, weights by 1e-6: Adam divides by the size of a gradient, which amplifies the
rounding of small ones. The tolerances leave room for other processors. A wrong rate, schedule,
decay or average changes losses by more than 1e-3.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from plain_loop import plain_training, problem
from safetensors.torch import load_file

from pretrained_2d.checkpoints.folder import load_checkpoint
from pretrained_2d.pretraining import pretrain
from pretrained_2d.training.outputs.metrics_log import read_metrics

LOSS, WEIGHT = {"rel": 2e-4, "abs": 2e-4}, {"rtol": 1e-3, "atol": 1e-3}


def compare(out: Path, plain: dict) -> None:
    """Every number that a run leaves in `out` with those of the plain loop."""
    lines = read_metrics(out / "metrics.jsonl")
    steps = [line for line in lines if line["kind"] == "train"]
    assert [line["loss"] for line in steps] == pytest.approx(plain["losses"], **LOSS)
    norms = [line["gradient_norm"] for line in steps]
    assert norms == pytest.approx(plain["norms"], rel=2e-3, abs=2e-4)
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    assert len(evaluations) == len(plain["evaluations"])
    for ours, theirs in zip(evaluations, plain["evaluations"], strict=True):
        assert {name: ours[name] for name in theirs} == pytest.approx(theirs, **LOSS)
    kept = load_file(out / "last" / "model.safetensors")
    for name, parameter in plain["average"].named_parameters():
        torch.testing.assert_close(kept[name], parameter.detach(), **WEIGHT, msg=name)


RECIPES = {
    "everything": ({}, {}),
    "no accumulation, no mixing": ({"accumulation": 1, "mixup": 0.0}, {}),
    "no average": ({"ema_decay": None}, {}),
    "train_size": ({}, {"phases": (), "train_size": 8}),
    "one size": ({}, {"phases": ()}),
    # the last batch has one sample: of its two parts one is empty
    "uneven": ({"batch_size": 23, "drop_last": False, "mixup": 0.0}, {}),
}


@pytest.mark.parametrize("kind", RECIPES)
def test_it_equals_the_plain_loop(kind: str, tmp_path: Path) -> None:
    config, listing, splits = problem(*RECIPES[kind][:1], **RECIPES[kind][1])
    summary = pretrain(config, listing, splits, tmp_path)
    plain = plain_training(config, splits)
    compare(tmp_path, plain)
    assert summary["steps"] == len(plain["losses"])


def test_it_equals_the_plain_loop_after_an_interruption_in_every_phase(tmp_path: Path) -> None:
    config, listing, splits = problem()

    def stop(progress) -> None:
        if progress.step in (6, 8) and progress.step not in stopped:
            stopped.append(progress.step)
            raise KeyboardInterrupt

    stopped: list[int] = []
    for _ in range(2):  # after steps 5 and 7, which are logged but in no saved state
        with pytest.raises(KeyboardInterrupt):
            pretrain(config, listing, splits, tmp_path, on_progress=stop)
    pretrain(config, listing, splits, tmp_path, on_progress=stop)
    assert stopped == [6, 8]
    compare(tmp_path, plain_training(config, splits))


def test_what_is_kept_has_the_bandlimit_of_its_phase(tmp_path: Path) -> None:
    """The checkpoint, loaded by itself, gives the numbers written in its card."""
    from plain_loop import evaluation

    config, listing, splits = problem()
    summary = pretrain(config, listing, splits, tmp_path)
    for folder in ("last", "best/accuracy@8", "best/accuracy@16"):
        network, card = load_checkpoint(tmp_path / folder)
        epoch = card.provenance["epoch"]
        assert card.options["axis"]["bandlimit"] == (0.2 if epoch <= 2 else 0.4)
        again = evaluation(network, splits["val"])
        assert {n: card.provenance["metrics"][n] for n in again} == pytest.approx(again, **LOSS)
    assert summary["best_epoch"]["accuracy@16"] in (1, 2, 3, 4)


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from plain_loop import problem
from pretrained_2d.pretraining import pretrain
from torch import distributed
config, listing, splits = problem()
out = Path(sys.argv[2])
pretrain(config, listing, splits, out)
assert distributed.get_world_size() == 2

from test_loop import LimitedMemory
from toy_training import run
plain = {"mixup": 0, "cutmix": 0, "accumulation": 1, "epochs": 2}
model = LimitedMemory([12, 3][distributed.get_rank()])
options = {"batch_size": "auto", "monitor": (), "evaluate": None, **plain}
result = run(out / "auto", model, **options)
assert result.batch_size == 4, "16 fit in the first process, 4 in the second"

from pretrained_2d.training.learner import Learner, start_processes
from pretrained_2d.training.optimiser import parameter_groups
recipe = config.recipe
learner = Learner(model, parameter_groups(model, recipe), recipe, start_processes(recipe, out))
assert not learner.sharded
distributed.destroy_process_group()
"""


def test_two_processes_equal_the_plain_loop_and_agree_on_a_batch_that_fits(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), str(tmp_path)]
    shared = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    processes = [
        subprocess.Popen(
            command,
            env=os.environ | shared | {"RANK": rank, "LOCAL_RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ("0", "1")
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-3000:]
    config, _, splits = problem()
    compare(tmp_path, plain_training(config, splits))
