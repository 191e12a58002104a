"""Every setting of the augmentation reaches the clips that are trained on."""

from dataclasses import asdict

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
