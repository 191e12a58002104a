"""The clips that a fine-tuning sees: one random stretch of each video in each epoch."""

from collections.abc import Sequence

from pretrained_2d.card import ModelCard
from videopipe.data.dataset import ClipDataset
from videopipe.data.manifest import VideoRecord
from videopipe.data.transforms import TrainTransform
from videopipe.errors import DataError
from videopipe.finetuning.recipe import Augmentation


def training_clips(
    records: Sequence[VideoRecord], card: ModelCard, augmentation: Augmentation, seed: int
) -> ClipDataset:
    """Random clips of the length and size that the card names, augmented."""
    if card.num_frames is None or card.clip_seconds is None:
        raise DataError(
            "the checkpoint does not say how many frames and seconds a clip has; "
            "set num_frames and clip_seconds"
        )
    size = card.preprocessing.image_size
    shortest, longest = (round(factor * size) for factor in augmentation.scale)
    transform = TrainTransform(
        image_size=size,
        short_side=(shortest, longest),
        flip_probability=augmentation.flip,
        rand_augment_layers=augmentation.rand_augment_layers,
        rand_augment_magnitude=augmentation.rand_augment_magnitude,
        rand_augment_probability=augmentation.rand_augment_probability,
    )
    return ClipDataset(
        records,
        num_frames=card.num_frames,
        clip_seconds=card.clip_seconds,
        transform=transform,
        seed=seed,
    )
