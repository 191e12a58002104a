"""What happens to a clip before training: the same geometry for all of its frames, in uint8.

The test side is `Preprocessing` in the model's own card. Normalisation, with the card's mean and
std, happens on the device.
"""

import random
from dataclasses import dataclass

from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode, RandAugment
from torchvision.transforms.v2 import functional as transforms

MAGNITUDES = 10  # the paper counts RandAugment's strength from 0 to 10


@dataclass(frozen=True, kw_only=True)
class TrainTransform:
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
        frames = transforms.resize(
            frames, [short_side], interpolation=InterpolationMode.BILINEAR, antialias=True
        )
        top = random.randint(0, frames.shape[-2] - self.image_size)
        left = random.randint(0, frames.shape[-1] - self.image_size)
        frames = transforms.crop(frames, top, left, self.image_size, self.image_size)
        if random.random() < self.flip_probability:
            frames = transforms.horizontal_flip(frames)
        return frames

    def _augment(self, frames: Tensor) -> Tensor:
        """One operation on all frames. It must see uint8: on floats to 255 it ruins them."""
        magnitude = random.gauss(self.rand_augment_magnitude, self.rand_augment_spread)
        magnitude = min(max(round(magnitude), 0), MAGNITUDES)
        operation = RandAugment(
            num_ops=1, magnitude=magnitude, num_magnitude_bins=MAGNITUDES + 1, fill=0
        )
        return operation(frames)


def train_transform(**settings: object) -> TrainTransform:
    """The training side of a model's input; see `TrainTransform` for the settings."""
    return TrainTransform(**settings)  # type: ignore[arg-type]
