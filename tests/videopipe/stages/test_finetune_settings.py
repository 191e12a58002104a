"""Every setting of a fine-tuning reaches the call of `train`, which is stopped before its start."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pretrained_2d.networks.layers.blocks import DropPath, drop_path_rates
from videopipe.finetuning import operation
from videopipe.finetuning.decoding_limit import LimitedClips
from videopipe.finetuning.finetune_config import FinetuneConfig
from videopipe.finetuning.finetune_recipe import ClipAugmentation, FinetuneRecipe
from videopipe.finetuning.layers import learning_rate_scale
from videopipe.finetuning.validation import Validator
from videopipe.inflation.time_axis import time_parameters
from videopipe.models import load_model
from videopipe.pipeline.stage import Inputs
from videopipe.stages.finetune import run as finetune

CONFIG = FinetuneConfig(
    recipe=FinetuneRecipe(epochs=3, lr=0.01, weight_decay=0.3, workers=0, device="cpu", seed=7),
    augmentation=ClipAugmentation(rand_augment_layers=2, flip=0.125),
    num_frames=6,
    clip_seconds=0.75,
    drop_path=0.4,
    head_dropout=0.3,
    freeze_patterns=("stages.1.*",),
    freeze_batch_norm=True,
    layer_decay=0.5,
    time_lr_scale=0.25,
    validation_clips=2,
    max_failed=0.125,
    timeout_seconds=7.0,
    decoding_workers=3,
)


class StoppedError(Exception):
    """Raised in place of training."""


Ask = Callable[[FinetuneConfig], dict[str, Any]]


@pytest.fixture
def asked(
    make_tiny_model: Callable[..., Path],
    motion_clips: Path,
    given: Callable[..., Inputs],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Ask:
    """`asked(config)` -> the arguments of `train`."""
    model = make_tiny_model(tmp_path / "model", ndim=3)

    def ask(config: FinetuneConfig) -> dict[str, Any]:
        seen: dict[str, Any] = {}

        def train(network: nn.Module, phases: list[Any], **options: Any) -> None:
            (phase,) = phases
            seen.update(options, network=network, phase=phase)
            raise StoppedError

        monkeypatch.setattr(operation, "train", train)
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        with pytest.raises(StoppedError):
            finetune(config, given(model=model, clips=motion_clips), out)
        return seen

    return ask


def test_every_setting_reaches_the_training(asked: Ask) -> None:
    found = asked(CONFIG)
    network, card = found["network"], found["card"]
    assert (found["recipe"], found["objective"]) == (CONFIG.recipe, "cross_entropy")
    assert found["monitor"] == ("accuracy",)
    assert (card.num_frames, card.clip_seconds, card.labels) == (6, 0.75, ("left", "right"))
    branches = [module.rate for module in network.modules() if isinstance(module, DropPath)]
    assert branches == list(drop_path_rates(0.4, 4))
    assert network.dropout.p == 0.3

    data = found["phase"].data
    assert isinstance(data, LimitedClips)
    clips = data.clips
    assert (data.timeout_seconds, len(data), found["phase"].epochs) == (7.0, 8, 3)
    assert (clips.num_frames, clips.clip_seconds, clips.seed) == (6, 0.75, 7)
    assert clips.transform.rand_augment_layers == 2
    pixels = torch.randint(0, 256, (2, 3, 1, 4, 4), dtype=torch.uint8)
    normal = found["phase"].normalize(pixels)
    torch.testing.assert_close(normal, card.preprocessing.normalize(pixels))

    validator = found["evaluate"]
    assert isinstance(validator, Validator)
    assert (validator.scoring.clips, validator.max_failed) == (2, 0.125)
    assert (validator.execution.workers, validator.execution.device) == (3, "cpu")
    assert len(validator.records) == 6


def test_rates_of_every_parameter_follow_the_settings(asked: Ask) -> None:
    found = asked(CONFIG)
    network = found["network"]
    scale = learning_rate_scale(
        network,
        head={"head.weight", "head.bias"},
        time=time_parameters(network),
        decay=0.5,
        freeze="nothing",
        time_scale=0.25,
        freeze_patterns=("stages.1.*",),
    )
    rates = {id(p): group.lr for group in found["groups"] for p in group.parameters}
    for name, parameter in network.named_parameters():
        frozen = name.startswith("stages.1.")
        assert parameter.requires_grad != frozen, name
        assert rates.get(id(parameter)) == (None if frozen else pytest.approx(0.01 * scale(name)))
    assert len(set(rates.values())) > 4


def test_batch_norms_are_frozen_on_request(asked: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[nn.Module] = []
    monkeypatch.setattr(operation, "freeze_batch_norm", frozen.append)
    asked(replace(CONFIG, freeze_batch_norm=False))
    assert frozen == []
    found = asked(CONFIG)
    assert frozen == [found["network"]]


def test_the_last_checkpoint_is_kept_without_validation(asked: Ask) -> None:
    found = asked(replace(CONFIG, protocol="last", num_frames=None, clip_seconds=None))
    assert (found["monitor"], found["evaluate"]) == ((), None)
    assert len(found["phase"].data) == 8 + 6, "training and validation videos"
    assert (found["card"].num_frames, found["card"].clip_seconds) == (4, 0.5)


def test_the_seed_draws_the_new_head(asked: Ask) -> None:
    heads = [
        asked(replace(CONFIG, recipe=replace(CONFIG.recipe, seed=seed)))["network"].head.weight
        for seed in (7, 7, 8)
    ]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_what_was_learnt_stays_when_the_head_is_new(asked: Ask, tmp_path: Path) -> None:
    network = asked(CONFIG)["network"]
    before, _ = load_model(tmp_path / "model")
    for name, value in before.state_dict().items():
        if not name.startswith("head."):
            assert torch.equal(network.state_dict()[name], value), name
