"""Images as training and test data, at any resolution."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from torch import Tensor
from torchvision.transforms.v2 import functional

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.images.image_transform import ImageTransform
from pretrained_2d.images.items import ImageItems
from pretrained_2d.randomness import Sample, seeded


@dataclass(frozen=True)
class TrainImages:
    """`images[Sample(item, epoch, repeat)]`: an augmented image, a function of the sample only."""

    items: ImageItems
    transform: ImageTransform
    seed: int

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, sample: Sample | int) -> tuple[Tensor, Tensor]:
        item, epoch, repeat = sample if isinstance(sample, tuple) else Sample(sample)
        is_random = self.transform.augmentation.is_random
        drawing = seeded(self.seed, "image", epoch, item, repeat) if is_random else nullcontext()
        with drawing:
            return self.transform(self.items.read(item)), self.items.target(item)


@dataclass(frozen=True)
class TestImages:
    """`images[item]`: an image preprocessed for evaluation, uint8."""

    __test__ = False  # so that pytest does not collect it

    items: ImageItems
    preprocess: Callable[[Tensor], Tensor]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, item: int) -> tuple[Tensor, Tensor]:
        return self.preprocess(self.items.read(item)), self.items.target(item)


@dataclass(frozen=True)
class ResizeAndNormalize:
    """On the device: a batch of base images -> normalised, at another resolution."""

    preprocessing: Preprocessing
    size: int  # pixels

    def __call__(self, images: Tensor) -> Tensor:
        """uint8, or floats that are normalised already -> float (batch, 3, size, size)."""
        signal = images if images.is_floating_point() else self.preprocessing.normalize(images)
        if signal.shape[-2:] == (self.size, self.size):
            return signal
        return functional.resize(signal, [self.size, self.size], antialias=True)  # bilinear
