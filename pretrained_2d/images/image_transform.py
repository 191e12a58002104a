"""Augmentation of a training image: crop, flip, RandAugment, AugMix and erasing, by timm and
torchvision, all drawn from the seed of the sample."""

from typing import Any

from PIL import Image
from timm.data.auto_augment import augment_and_mix_transform, rand_augment_transform
from timm.data.random_erasing import RandomErasing
from timm.data.transforms import RandomResizedCropAndInterpolation
from torch import Tensor
from torchvision.transforms import v2

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.images.augmentation import ImageAugmentation
from pretrained_2d.images.decoding import to_image, to_tensor


class ImageTransform:
    """uint8 (3, height, width) of any size -> (3, image_size, image_size).

    uint8, except after erasing, which fills boxes with normalised noise and so returns normalised
    floats.
    """

    def __init__(self, augmentation: ImageAugmentation, preprocessing: Preprocessing) -> None:
        self.augmentation, self.preprocessing = augmentation, preprocessing
        self.steps = v2.Compose(_steps(augmentation, preprocessing))
        self.erase = None
        if augmentation.erase:
            self.erase = RandomErasing(augmentation.erase, mode="pixel", device="cpu")  # type: ignore[no-untyped-call]

    def __call__(self, pixels: Tensor) -> Tensor:
        """Augment one image with the random state of the caller."""
        if self.augmentation.crop != "random_resized":
            pixels = self.preprocessing.resize_and_crop(pixels)
        if not self.augmentation.is_random:
            return pixels
        pixels = to_tensor(self.steps(to_image(pixels)))
        if self.erase is None:
            return pixels
        return self.erase(self.preprocessing.normalize(pixels[None]))[0]


def _steps(augmentation: ImageAugmentation, preprocessing: Preprocessing) -> list[Any]:
    size = preprocessing.image_size
    steps: list[Any] = []
    if augmentation.crop == "random_resized":
        steps.append(
            RandomResizedCropAndInterpolation(  # type: ignore[no-untyped-call]
                size, scale=augmentation.crop_scale, interpolation="random"
            )
        )
    if augmentation.crop == "pad":
        steps.append(v2.RandomCrop(size, augmentation.padding, padding_mode="symmetric"))
    if augmentation.flip:
        steps.append(v2.RandomHorizontalFlip(augmentation.flip))
    hints = {
        "translate_const": int(size * 0.45),
        "img_mean": tuple(min(255, round(255 * mean)) for mean in preprocessing.mean),
    }
    if augmentation.rand_augment:
        steps.append(rand_augment_transform(augmentation.rand_augment, hints))
    if augmentation.augmix:
        # Its bicubic steps would blur; timm asks for bilinear there.
        mixing = {**hints, "translate_pct": 0.3, "interpolation": Image.Resampling.BILINEAR}
        steps.append(augment_and_mix_transform(augmentation.augmix, mixing))
    return steps or [v2.Identity()]
