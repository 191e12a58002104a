"""Training clips: one random clip of each video in each epoch."""

from collections.abc import Sequence

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.manifest import VideoRecord
from videopipe.dataset.training_clips import ClipDataset
from videopipe.dataset.transforms import TrainTransform
from videopipe.errors import DataError
from videopipe.finetuning.recipe import Augmentation


def training_clips(
    records: Sequence[VideoRecord], card: ModelCard, augmentation: Augmentation, seed: int
) -> ClipDataset:
    """Random clips of the length and size that the card names, augmented."""
    if card.num_frames is None or card.clip_seconds is None:
        raise DataError(
            "the checkpoint has no number of frames and seconds per clip; "
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
        interpolation=card.preprocessing.interpolation,  # other blur is another input at test time
        squash=card.preprocessing.squash,
        shuffle_frames=augmentation.shuffle_frames,
    )
    return ClipDataset(
        records,
        num_frames=card.num_frames,
        clip_seconds=card.clip_seconds,
        transform=transform,
        seed=seed,
    )
