"""Features and probe in several processes, and a probe that is killed."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pretrained_2d.checkpoints.folder import read_weights
from tests.processes import ACCELERATE, kill, run, start_paused
from videopipe.cli import main
from videopipe.pipeline.stage import Inputs
from videopipe.probing.probe_config import ProbeConfig, ProbeRecipe
from videopipe.stages.probe import run as probe

Given = Callable[..., Inputs]

PIPELINE = """
name: shared
stages:
  model: {{use: adopt, config: {{checkpoint: {model}}}}}
  clips: {{use: decode, config: {{data: {videos}, workers: 1}}}}
  features:
    use: features
    inputs: {{model: model, clips: clips}}
    config: {{num_frames: 4, clip_seconds: 1.6, execution: {{workers: 1, threads: 1}}}}
  probe:
    use: probe
    inputs: {{features: features}}
    config: {{width: 8, state: 8, dropout: 0.0, recipe: {{epochs: 2, batch_size: 4, lr: 0.01}}}}
"""


@pytest.mark.slow
def test_two_processes_share_the_videos_and_give_the_features_of_one(
    flat_model: Path, motion_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PIPELINE.format(model=flat_model, videos=motion_clips.parent / "videos")
    (tmp_path / "shared.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "shared.yaml", "--runs", "one"]) == 0
    run([*ACCELERATE, "-m", "videopipe", "run", "shared.yaml", "--runs", "two"], tmp_path)
    (one,), (two,) = (list(tmp_path.glob(f"{runs}/features-*")) for runs in ("one", "two"))
    for name in ("features.npy", "times.npy", "manifest.jsonl", "features.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    (one,), (two,) = (list(tmp_path.glob(f"{runs}/probe-*")) for runs in ("one", "two"))
    weights = [read_weights(folder)["temporal.classifier.weight"] for folder in (one, two)]
    torch.testing.assert_close(*weights, rtol=1e-3, atol=1e-4)


PROGRAM = """
import sys
from pathlib import Path
from videopipe.probing.probe_config import ProbeConfig, ProbeRecipe
from videopipe.probing.head_training import train_probe
if __name__ == "__main__":
    recipe = ProbeRecipe(epochs=4, batch_size=4, lr=1e-2, device="cpu", checkpoint_every_steps=3)
    train_probe(ProbeConfig(width=8, state=8, recipe=recipe), *map(Path, sys.argv[1:3]))
"""


def test_a_kill_in_the_middle_of_training_changes_nothing(
    motion_features: Path, given: Given, tmp_path: Path
) -> None:
    recipe = ProbeRecipe(epochs=4, batch_size=4, lr=1e-2, device="cpu", checkpoint_every_steps=3)
    config = ProbeConfig(width=8, state=8, recipe=recipe)
    (tmp_path / "whole").mkdir()
    probe(config, given(features=motion_features), tmp_path / "whole")
    out, program = tmp_path / "killed", tmp_path / "program.py"
    out.mkdir()
    program.write_text(PROGRAM)
    target = "pretrained_2d.training.loop:TrainingRun._save"
    kill(start_paused(target, 1, [program, motion_features, out]))
    assert list(out.glob("state/step_*"))
    probe(config, given(features=motion_features), out)
    whole, resumed = read_weights(tmp_path / "whole"), read_weights(out)
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
