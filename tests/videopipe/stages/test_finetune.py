"""Fine-tuning: learned and frozen parameters, the card, and resuming after a kill."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import read_card, read_weights, save_checkpoint
from pretrained_2d.networks.backbones import build
from tests.processes import kill, start_paused
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.manifest import read_manifest, write_manifest
from videopipe.errors import DataError
from videopipe.evaluation.labelled import score_records
from videopipe.evaluation.score_table import measure
from videopipe.finetuning.finetune_config import FinetuneConfig
from videopipe.finetuning.finetune_recipe import ClipAugmentation, FinetuneRecipe
from videopipe.finetuning.head import head_parameters
from videopipe.finetuning.validation import Validator
from videopipe.finetuning.validation_split import videos_of
from videopipe.inflation.time_axis import time_parameters
from videopipe.models import load_model
from videopipe.pipeline.stage import Inputs
from videopipe.scoring.settings import Execution, Scoring
from videopipe.stages.evaluate import EvaluateConfig
from videopipe.stages.evaluate import run as evaluate
from videopipe.stages.finetune import run as finetune

Given = Callable[..., Inputs]
QUICK = FinetuneConfig(
    recipe=FinetuneRecipe(
        epochs=2, batch_size=4, accumulation=2, lr=3e-3, weight_decay=0.05, workers=0, device="cpu"
    ),
    augmentation=ClipAugmentation(rand_augment_layers=0, flip=0.0, scale=(1.0, 1.1)),
    decoding_workers=1,
)
SAVING = replace(QUICK, recipe=replace(QUICK.recipe, epochs=3, checkpoint_every_steps=1))


def tuned(config: FinetuneConfig, inputs: Inputs, out: Path) -> dict[str, Any]:
    out.mkdir(exist_ok=True)
    return finetune(config, inputs, out)


def test_defaults_are_the_papers() -> None:
    config = FinetuneConfig()
    recipe = config.recipe
    assert (recipe.epochs, recipe.batch_size, recipe.lr, recipe.weight_decay) == (50, 64, 1e-4, 0.2)
    assert (recipe.schedule, recipe.warmup_steps, recipe.warmup_epochs) == ("cosine", 0, 0)
    assert (recipe.betas, recipe.ema_decay, recipe.state_space_lr) == ((0.9, 0.999), None, None)
    assert (config.drop_path, config.head_dropout) == (0.2, 0.2)
    short_sides = [round(224 * factor) for factor in config.augmentation.scale]
    assert (short_sides, config.augmentation.flip) == ([256, 320], 0.5)


def test_every_parameter_of_the_time_axis_moves_and_the_card_records_it(
    motion_model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    summary = tuned(QUICK, given(model=motion_model, clips=motion_clips), tmp_path / "out")
    network, card = load_model(tmp_path / "out")
    before, after = load_model(motion_model)[0].state_dict(), network.state_dict()
    time_axis = time_parameters(network)
    assert len(time_axis) > 10
    still = [name for name in time_axis if torch.equal(before[name], after[name])]
    assert still == []
    assert card.labels == ("left", "right")
    made = card.provenance
    assert (made["protocol"], made["method"], made["made_by"]) == ("validation", "s4nd", "finetune")
    assert (summary["training_videos"], summary["validation_videos"]) == (8, 6)
    assert summary["clips"].startswith("8 frames over 1.2 s")
    assert summary["steps"] == made["training"]["steps"] == 4
    assert made["training"]["peak_memory_bytes"] > 1e6
    assert all(layer["initial_length"] == pytest.approx(4.0) for layer in made["time_axis"])
    assert any(layer["learned_length"] != layer["initial_length"] for layer in made["time_axis"])
    lines = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    best = max(r["accuracy"] for r in map(json.loads, lines) if r["kind"] != "train")
    assert summary["best_accuracy"] == best


def test_validation_sees_the_weights_of_the_moment(motion_model: Path, motion_clips: Path) -> None:
    """Its engine is kept for many epochs; its numbers must equal those of a new evaluation."""
    network, card = load_model(motion_model)
    manifest = read_manifest(motion_clips)
    records = videos_of(manifest, "val")
    execution = Execution(device="cpu", workers=1, threads=1)
    options = {"scoring": Scoring(), "execution": execution}
    with Validator(card, records, manifest.labels, **options) as validator:
        first = validator(network)
        network.train()
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        network(torch.randn(4, 3, 8, 32, 32)).square().sum().backward()
        optimizer.step()
        second = validator(network.eval())
    assert first["log_loss"] != second["log_loss"]
    fresh = score_records(network, card, records, manifest.labels, **options)
    assert second["log_loss"] == measure(fresh)["calibration"]["log_loss"]


def test_a_linear_probe_changes_the_head_and_nothing_else(
    motion_model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    config = replace(
        QUICK, freeze="backbone", freeze_batch_norm=True, protocol="last",
        num_frames=4, clip_seconds=0.8,
    )  # fmt: skip
    summary = tuned(config, given(model=motion_model, clips=motion_clips), tmp_path / "out")
    before, after = read_weights(motion_model), read_weights(tmp_path / "out")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == head_parameters(load_model(motion_model)[0])
    assert summary["validation_videos"] == 0
    card = read_card(tmp_path / "out")
    assert card.provenance["protocol"] == "last"
    assert (card.num_frames, card.clip_seconds) == (4, 0.8)
    assert summary["clips"].startswith("4 frames over 0.8 s")


def test_a_network_of_other_classes_gets_a_new_head(
    make_model: Callable[..., Path], motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    model = make_model(num_classes=5, method="s3d")
    config = replace(QUICK, protocol="last", recipe=replace(QUICK.recipe, epochs=1))
    summary = tuned(config, given(model=model, clips=motion_clips), tmp_path / "out")
    network, card = load_model(tmp_path / "out")
    assert (summary["head"], len(card.labels or ())) == ("new", 2)
    assert network(torch.zeros(1, 3, 8, 32, 32)).shape == (1, 2)


def test_an_image_network_is_refused_with_a_remedy(
    motion_model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    flat = motion_model.parent / "flat"
    with pytest.raises(DataError, match="network for images; inflate it"):
        tuned(QUICK, given(model=flat, clips=motion_clips), tmp_path / "out")


@pytest.mark.slow
def test_validation_videos_that_are_away_stop_the_training_and_it_resumes(
    motion_model: Path, motion_clips: Path, given: Given, tmp_path: Path, monkeypatch: Any
) -> None:
    """Else the accuracy of that epoch would be 0, and another checkpoint would be kept."""
    videos = Path(shutil.copytree(motion_clips.parent / "videos", tmp_path / "videos"))
    write_manifest(tmp_path / "clips", find_dataset(videos))
    inputs, out = given(model=motion_model, clips=tmp_path / "clips"), tmp_path / "out"
    epochs, validate = [], Validator.__call__

    def away_in_the_second_epoch(validator: Validator, network: Any) -> Any:
        epochs.append(len(epochs) + 1)
        folder, away = videos / "val", tmp_path / "away"
        if len(epochs) == 2:
            folder.rename(away)
        try:
            return validate(validator, network)
        finally:
            if away.is_dir():
                away.rename(folder)

    monkeypatch.setattr(Validator, "__call__", away_in_the_second_epoch)
    with pytest.raises(DataError, match=r"6 of 6 videos have no scores, .* max_failed \(0\.05"):
        tuned(SAVING, inputs, out)
    resumed = tuned(SAVING, inputs, out)
    assert len(epochs) == 4, "three epochs, the second one validated twice"
    monkeypatch.undo()
    whole = tuned(SAVING, inputs, tmp_path / "whole")
    assert resumed["best_accuracy"] == whole["best_accuracy"]


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_finetune import SAVING, finetune
from conftest import given
if __name__ == "__main__":
    model, clips, out = map(Path, sys.argv[2:5])
    finetune(SAVING, given(model=model, clips=clips), out)
"""


@pytest.mark.slow
def test_killed_and_resumed_fine_tuning_ends_with_the_same_bits(
    motion_model: Path, motion_clips: Path, given: Given, tmp_path: Path, one_thread: None
) -> None:
    """SIGKILL in the middle of an epoch, twice; also the kept checkpoint and its card agree."""
    whole, killed, program = tmp_path / "whole", tmp_path / "killed", tmp_path / "program.py"
    tuned(SAVING, given(model=motion_model, clips=motion_clips), whole)
    killed.mkdir()
    program.write_text(PROGRAM)
    command = [program, Path(__file__).parent, motion_model, motion_clips, killed]
    for saved in (1, 2):  # after the first step, then two steps later
        kill(start_paused("pretrained_2d.training.loop:TrainingRun._save", saved, command))
    tuned(SAVING, given(model=motion_model, clips=motion_clips), killed)
    assert (killed / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    stories = [read_card(folder).provenance for folder in (whole, killed)]
    assert stories[0]["time_axis"] == stories[1]["time_axis"]
    assert stories[0]["training"]["best_accuracy"] == stories[1]["training"]["best_accuracy"]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """As many threads as the processes of `tests/processes.py` have."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_only_time_mixing_distinguishes_motions(
    make_model: Callable[..., Path], make_clips: Callable[..., Path], given: Given, tmp_path: Path
) -> None:
    """Single frames look the same in both classes: time mixing is needed to learn them."""
    clips = make_clips(train=60, val=1, test=30)
    config = replace(
        QUICK,
        protocol="last",
        drop_path=0.0,
        head_dropout=0.0,
        recipe=replace(QUICK.recipe, epochs=16, batch_size=16, accumulation=1),
    )
    found = {}
    for method in ("s4nd", "none"):
        model = make_model(method=method)  # with the defaults of an inflation
        tuned(config, given(model=model, clips=clips), tmp_path / method)
        scores = tmp_path / f"{method}_scores"
        scores.mkdir()
        inputs = given(model=tmp_path / method, clips=clips)
        found[method] = evaluate(EvaluateConfig(), inputs, scores)
    assert found["s4nd"]["top1"] >= 0.9
    assert found["none"]["interval"][0] <= 0.5, "chance must lie in reach"
    assert found["none"]["top1"] <= 0.7


SLOW_KINDS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("timesformer", "vivit")]
TOKENS = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48,
    "image_size": 32, "num_frames": 4,
}  # fmt: skip
VIDEO_ENCODERS: dict[str, dict[str, Any]] = {
    "videomae": {**TOKENS, "patch_size": 8},
    "timesformer": {**TOKENS, "patch_size": 8},
    "vivit": {**TOKENS, "tubelet_size": [2, 8, 8]},
    "vjepa2": {
        "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "mlp_ratio": 2,
        "crop_size": 32, "patch_size": 8, "frames_per_clip": 4, "tubelet_size": 2,
        "pred_hidden_size": 48, "pred_num_hidden_layers": 1, "pred_num_attention_heads": 4,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ["videomae", "vjepa2", *SLOW_KINDS])
def test_a_video_encoder_of_transformers_is_fine_tuned(
    kind: str, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    card = ModelCard(
        architecture=f"transformers/{kind}",
        options={**VIDEO_ENCODERS[kind], "num_classes": 0},
        ndim=3,
        preprocessing=Preprocessing(image_size=32, resize=32),
        num_frames=4,
        clip_seconds=1.0,
    )
    torch.manual_seed(0)
    encoder = build(card.architecture, **card.options)
    save_checkpoint(tmp_path / "encoder", encoder, card)
    inputs = given(model=tmp_path / "encoder", clips=motion_clips)
    assert tuned(QUICK, inputs, tmp_path / "out")["head"] == "new"
    network, card = load_model(tmp_path / "out")
    assert card.labels == ("left", "right")
    assert network(torch.randn(1, 3, 4, 32, 32)).shape == (1, 2)
    before, after = encoder.state_dict(), network.state_dict()
    learnt = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    still = [name for name in learnt if torch.equal(before[name], after[name])]
    assert still == []
    assert all(torch.equal(before[name], after[name]) for name in before.keys() - learnt)
