"""Every setting of the augmentation reaches the clips that are trained on."""

import re
from dataclasses import asdict
from typing import Any

import pytest

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from videopipe.dataset.manifest import VideoRecord
from videopipe.finetuning.finetune_recipe import ClipAugmentation
from videopipe.finetuning.operation import training_clips


def test_every_setting_reaches_the_transform() -> None:
    card = ModelCard(
        architecture="x",
        num_frames=6,
        clip_seconds=1.5,
        preprocessing=Preprocessing(image_size=64, interpolation="bicubic", squash=True),
    )
    augmentation = ClipAugmentation(
        rand_augment_layers=3,
        rand_augment_magnitude=2.0,
        rand_augment_probability=0.25,
        scale=(1.25, 1.5),
        flip=0.125,
        shuffle_frames=True,
    )
    clips = training_clips([VideoRecord(path="x.mp4", label=0)], card, augmentation, seed=9)
    assert (clips.num_frames, clips.clip_seconds, clips.seed) == (6, 1.5, 9)
    assert asdict(clips.transform) == {
        "image_size": 64,
        "short_side": (80, 96),
        "flip_probability": 0.125,
        "rand_augment_layers": 3,
        "rand_augment_magnitude": 2.0,
        "rand_augment_spread": 0.5,
        "rand_augment_probability": 0.25,
        "interpolation": "bicubic",
        "squash": True,
        "shuffle_frames": True,
    }


BAD = {
    "rand_augment_layers": [-1],
    "rand_augment_magnitude": [-0.1, 10.1],
    "rand_augment_probability": [-0.1, 1.1],
    "flip": [-0.1, 1.1],
    "scale": [(0.9, 1.2), (1.3, 1.2)],
}


@pytest.mark.parametrize(("name", "value"), [(name, v) for name in BAD for v in BAD[name]])
def test_impossible_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{name} is {value}, expected")):
        ClipAugmentation(**{name: value})


def test_settings_at_their_limits_are_accepted() -> None:
    for bound in (0.0, 1.0):
        ClipAugmentation(flip=bound, rand_augment_probability=bound)
        ClipAugmentation(rand_augment_magnitude=10 * bound, scale=(1.0, 1.0 + bound))
