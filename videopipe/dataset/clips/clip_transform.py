"""Augmentation of training clips: the same operation for all frames of a clip, in uint8.

For evaluation see `Preprocessing` in the model's card. Normalisation, with the card's mean and std,
runs on the device.
"""

import random
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode, RandAugment
from torchvision.transforms.v2 import functional as transforms

MAGNITUDES = 10  # the paper counts RandAugment's strength from 0 to 10


@dataclass(frozen=True, kw_only=True)
class ClipTransform:
    """RandAugment, a random scale, a random crop and a flip: uint8 in, uint8 out.

    The defaults are the paper's. `rand_augment_layers` operations are each applied with
    `rand_augment_probability`, at a strength around `rand_augment_magnitude` (0 to 10).
    """

    image_size: int = 224  # pixels, height and width of the crop
    short_side: tuple[int, int] = (256, 320)  # pixels, drawn between these
    flip_probability: float = 0.5
    rand_augment_layers: int = 1
    rand_augment_magnitude: float = 7.0
    rand_augment_spread: float = 0.5
    rand_augment_probability: float = 0.5
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    squash: bool = False  # scale both sides to the drawn size, whatever the aspect ratio
    shuffle_frames: bool = False

    def __post_init__(self) -> None:
        shortest, longest = self.short_side
        if not 0 < self.image_size <= shortest <= longest:
            raise ValueError(
                f"short_side must be two sizes, the first at least image_size ({self.image_size}) "
                f"and at most the second, got {self.short_side}"
            )
        if not 0 <= self.rand_augment_magnitude <= MAGNITUDES:
            raise ValueError(
                f"rand_augment_magnitude must lie between 0 and {MAGNITUDES}, "
                f"got {self.rand_augment_magnitude}"
            )

    def __call__(self, frames: Tensor) -> Tensor:
        """(time, channels, height, width) -> (time, channels, image_size, image_size)."""
        for _ in range(self.rand_augment_layers):
            if random.random() < self.rand_augment_probability:
                frames = self._augment(frames)
        short_side = random.randint(*self.short_side)
        size = [short_side] * (2 if self.squash else 1)
        mode = InterpolationMode(self.interpolation)
        frames = transforms.resize(frames, size, interpolation=mode, antialias=True)
        top = random.randint(0, frames.shape[-2] - self.image_size)
        left = random.randint(0, frames.shape[-1] - self.image_size)
        frames = transforms.crop(frames, top, left, self.image_size, self.image_size)
        if random.random() < self.flip_probability:
            frames = transforms.horizontal_flip(frames)
        if self.shuffle_frames:
            frames = frames[random.sample(range(len(frames)), len(frames))]
        return frames

    def _augment(self, frames: Tensor) -> Tensor:
        """One operation on all frames. They must be uint8: RandAugment clips floats at 1."""
        magnitude = random.gauss(self.rand_augment_magnitude, self.rand_augment_spread)
        magnitude = min(max(round(magnitude), 0), MAGNITUDES)
        operation = RandAugment(
            num_ops=1, magnitude=magnitude, num_magnitude_bins=MAGNITUDES + 1, fill=0
        )
        return operation(frames)
