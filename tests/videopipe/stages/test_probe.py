"""A probe: the checkpoint it leaves, and what its heads can distinguish."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from pretrained_2d.checkpoints.folder import load_checkpoint, read_weights, save_checkpoint
from pretrained_2d.errors import CheckpointError
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.manifest import write_manifest
from videopipe.dataset.moving_shapes import draw_scene, frames_of
from videopipe.errors import DataError
from videopipe.evaluation.score_table import read_scores
from videopipe.finetuning.finetune_config import FinetuneConfig
from videopipe.finetuning.finetune_recipe import FinetuneRecipe
from videopipe.models import load_model
from videopipe.pipeline.stage import Inputs, Result
from videopipe.probing.feature_file import read_features
from videopipe.probing.probe_config import FeaturesConfig, HeadName, ProbeConfig, ProbeRecipe
from videopipe.scoring.settings import Execution
from videopipe.stages.evaluate import EvaluateConfig
from videopipe.stages.evaluate import run as evaluate
from videopipe.stages.features import run as extract
from videopipe.stages.finetune import run as finetune
from videopipe.stages.probe import check
from videopipe.stages.probe import run as probe
from videopipe.video.video import open_video
from videopipe.video.writing import write_video

Given = Callable[..., Inputs]
HEADS = get_args(HeadName)
ONE = Execution(device="cpu", workers=1, threads=1)
QUICK = ProbeConfig(
    width=8, state=8, recipe=ProbeRecipe(epochs=2, batch_size=4, lr=1e-2, device="cpu")
)


def ran(stage: Callable[..., dict[str, Any]], config: Any, inputs: Inputs, out: Path) -> dict:
    out.mkdir(exist_ok=True)
    return stage(config, inputs, out)


@pytest.mark.parametrize("head", HEADS)
def test_the_checkpoint_gives_the_logits_of_the_head_on_the_features(
    head: HeadName, motion_features: Path, flat_model: Path, motion_clips: Path, given: Given,
    tmp_path: Path,
) -> None:  # fmt: skip
    summary = ran(
        probe, replace(QUICK, head=head), given(features=motion_features), tmp_path / "out"
    )
    assert (summary["training_videos"], summary["validation_videos"]) == (8, 6)
    network, card = load_model(tmp_path / "out")
    assert (card.ndim, card.labels, card.num_frames) == (3, ("left", "right"), 4)
    assert (card.provenance["method"], card.provenance["protocol"]) == (head, "validation")
    backbone = read_weights(flat_model)
    joined = read_weights(tmp_path / "out")
    assert all(
        torch.equal(joined[f"features.backbone.{name}"], backbone[name]) for name in backbone
    )

    found = read_features(motion_features)
    row = next(i for i, r in enumerate(found.manifest.records) if r.split == "test")
    times = np.load(motion_features / "times.npy")[row, 0]
    with open_video(Path(found.manifest.records[row].path), "auto") as video:
        frames = video.frames_at([min(float(time), video.duration_seconds) for time in times])
    frames = card.preprocessing.resize_and_crop(frames)
    clip = card.preprocessing.normalize(frames).movedim(0, 1)[None]
    kept = torch.from_numpy(found.features[row].astype(np.float32)).mT  # (1, channels, steps)
    with torch.inference_mode():
        logits = network(clip)
        exact = load_model(flat_model)[0].embed(clip[0].movedim(1, 0)).T[None]
        by_hand, from_kept = network.temporal(exact), network.temporal(kept)
        torch.testing.assert_close(network.head(network.embed(clip)), logits)
    torch.testing.assert_close(logits, by_hand, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(kept, exact, rtol=2.0**-10, atol=1e-6)  # rounded to float16
    torch.testing.assert_close(logits, from_kept, rtol=0, atol=0.01)

    ran(evaluate, EvaluateConfig(execution=ONE), given(model=tmp_path / "out", clips=motion_clips),
        tmp_path / "scores")  # fmt: skip
    table = read_scores(tmp_path / "scores")
    place = table.paths.index(found.manifest.records[row].path)
    scored = torch.from_numpy(table.scores[place])
    torch.testing.assert_close(scored, logits.softmax(1)[0], rtol=1e-4, atol=1e-5)


def test_the_mean_head_is_a_linear_classifier_of_mean_features(
    motion_features: Path, given: Given, tmp_path: Path
) -> None:
    ran(probe, replace(QUICK, head="mean"), given(features=motion_features), tmp_path / "out")
    weights = {name: w.double().numpy() for name, w in read_weights(tmp_path / "out").items()}
    mean, std = weights["temporal.standardise.mean"], weights["temporal.standardise.std"]
    found = read_features(motion_features)
    training = [i for i, r in enumerate(found.manifest.records) if r.split == "train"]
    seen = found.features[training].astype(np.float64)
    np.testing.assert_allclose(mean, seen.mean((0, 1, 2)), rtol=1e-5)
    spread = seen.std((0, 1, 2))
    assert (spread == 0).any()  # such channels are left as they are
    np.testing.assert_allclose(std, np.where(spread == 0, 1, spread), rtol=1e-4)
    row = found.features[0, 0].astype(np.float64).mean(0)
    classifier = [weights[f"temporal.classifier.{name}"] for name in ("weight", "bias")]
    wanted = classifier[0] @ ((row - mean) / std) + classifier[1]
    network, _ = load_model(tmp_path / "out")
    with torch.inference_mode():
        kept = torch.from_numpy(found.features[0].astype(np.float32)).mT
        np.testing.assert_allclose(network.temporal(kept)[0].numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_features_of_a_video_network_make_a_probe_over_windows(
    motion_model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    config = FeaturesConfig(num_frames=16, clip_seconds=1.5, execution=ONE)
    ran(extract, config, given(model=motion_model, clips=motion_clips), tmp_path / "features")
    ran(probe, QUICK, given(features=tmp_path / "features"), tmp_path / "out")
    network, card = load_model(tmp_path / "out")
    assert (card.num_frames, card.clip_seconds, network.shape.steps) == (16, 1.5, 2)
    inner, _ = load_model(motion_model)
    clip = torch.randn(2, 3, 16, 32, 32)
    with torch.inference_mode():
        halves = torch.stack([inner.embed(clip[:, :, :8]), inner.embed(clip[:, :, 8:])], -1)
        torch.testing.assert_close(network(clip), network.temporal(halves), rtol=1e-4, atol=1e-4)
        assert network(clip[:, :, ::2], (2.0, 1.0, 1.0)).shape == (2, 2)


def test_a_seed_gives_the_same_bytes_and_another_seed_does_not(
    motion_features: Path, given: Given, tmp_path: Path
) -> None:
    other = replace(QUICK, recipe=replace(QUICK.recipe, seed=1))
    for name, config in (("one", QUICK), ("same", QUICK), ("other", other)):
        ran(probe, config, given(features=motion_features), tmp_path / name)
    one, same, different = (
        read_weights(tmp_path / name)["temporal.classifier.weight"]
        for name in ("one", "same", "other")
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, different)


def test_the_card_tells_what_was_learned_and_only_videopipe_builds_it(
    motion_features: Path, given: Given, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran(probe, QUICK, given(features=motion_features), out)
    _, card = load_model(out)
    (layer,) = card.provenance["time_axis"]
    assert layer["initial_length"] == pytest.approx(4.0)
    assert layer["learned_length"] != layer["initial_length"]
    assert {path.name for path in out.iterdir()} == {
        "config.json", "model.safetensors", "metrics.jsonl",
    }  # fmt: skip
    with pytest.raises(CheckpointError, match=r"videopipe\.models\.load_model"):
        load_checkpoint(out)
    content = json.loads((out / "config.json").read_text())
    content["probe"]["head"]["depth"] = 3
    (out / "config.json").write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=r"the entry 'probe' of the card.*depth"):
        load_model(out)


def test_a_probe_can_be_fine_tuned_for_other_classes(
    motion_features: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    ran(probe, QUICK, given(features=motion_features), tmp_path / "probe")
    network, card = load_model(tmp_path / "probe")
    save_checkpoint(tmp_path / "renamed", network, replace(card, labels=("up", "down")))
    recipe = FinetuneRecipe(epochs=1, batch_size=4, accumulation=1, workers=0, device="cpu")
    config = FinetuneConfig(recipe=recipe, decoding_workers=1)
    ran(finetune, config, given(model=tmp_path / "renamed", clips=motion_clips), tmp_path / "out")
    before, after = read_weights(tmp_path / "probe"), read_weights(tmp_path / "out")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert any(name.startswith("features.backbone.") for name in changed)
    assert any(name.startswith("temporal.pooling.") for name in changed)
    assert load_model(tmp_path / "out")[1].labels == ("left", "right")


def test_what_the_index_knows_is_checked_before_the_features_are_made(
    motion_features: Path, make_clips: Callable[..., Path]
) -> None:
    clips = Inputs({"clips": [Result(make_clips(train=1, val=0, test=1), "clips")]})
    result = Result(motion_features, "features", config=FeaturesConfig(), inputs=clips)
    inputs = Inputs({"features": [result]})
    with pytest.raises(DataError, match="no val videos to choose a checkpoint on"):
        check(QUICK, inputs)
    check(replace(QUICK, protocol="last"), inputs)


def test_mixing_is_refused() -> None:
    with pytest.raises(ValueError, match="a probe learns from features"):
        ProbeRecipe(mixup=0.2)


@pytest.fixture(scope="module")
def reversed_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shapes that grow, and the same videos backwards: the same frames in the other order."""
    root = tmp_path_factory.mktemp("pairs")
    for split, count in (("train", 40), ("val", 10), ("test", 16)):
        for number in range(count):
            random = np.random.default_rng([number, count])
            scene = replace(draw_scene(random, 32), log_size=random.uniform(0.36, 0.55), speed=0.77)
            frames = list(frames_of(scene, "grow", num_frames=8, frame_rate=8.0))
            for label, ordered in (("grow", frames), ("shrink", frames[::-1])):
                path = root / "videos" / split / label / f"{number:03}.mp4"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_video(path, ordered, frame_rate=8.0, quality=0)
    write_manifest(root / "clips", find_dataset(root / "videos"))
    return root / "clips"


@pytest.mark.slow
def test_only_heads_that_see_order_tell_a_motion_from_its_reverse(
    reversed_pairs: Path, flat_model: Path, given: Given, tmp_path: Path
) -> None:
    config = FeaturesConfig(num_frames=8, clip_seconds=1.0, execution=ONE)
    ran(extract, config, given(model=flat_model, clips=reversed_pairs), tmp_path / "features")
    top1 = {}
    for head in HEADS:
        trained = ProbeConfig(head=head, width=32, recipe=ProbeRecipe(epochs=40, device="cpu"))
        ran(probe, trained, given(features=tmp_path / "features"), tmp_path / head)
        inputs = given(model=tmp_path / head, clips=reversed_pairs)
        scores = ran(evaluate, EvaluateConfig(execution=ONE), inputs, tmp_path / f"{head}_scores")
        top1[head] = scores["top1"]
    # A head that ignores order gives a video and its reverse one class: one of each pair is right.
    assert top1["mean"] == pytest.approx(0.5, abs=0.1)
    assert top1["attentive"] == pytest.approx(0.5, abs=0.1)
    assert top1["conv"] > 0.85
    assert top1["s4nd"] > 0.85
