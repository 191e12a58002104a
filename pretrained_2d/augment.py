"""The training side of an image: crop, flip, RandAugment, AugMix and erasing, by timm and
torchvision, all drawn from the seed of the sample."""

from dataclasses import dataclass
from typing import Any, Literal

from PIL import Image
from timm.data.auto_augment import augment_and_mix_transform, rand_augment_transform
from timm.data.random_erasing import RandomErasing
from timm.data.transforms import RandomResizedCropAndInterpolation
from torch import Tensor
from torchvision.transforms import v2

from pretrained_2d.card import Preprocessing
from pretrained_2d.image_decode import to_image, to_tensor
from pretrained_2d.setting import setting


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is done to training images. The default is nothing: the test side's resize and crop."""

    crop: Literal["center", "pad", "random_resized"] = setting(
        "center", "center: as in tests; pad: shift by up to `padding`; random_resized: of any scale"
    )
    crop_scale: tuple[float, float] = setting((0.08, 1.0), "area kept by random_resized")
    padding: int = setting(4, "mirrored border of crop: pad", unit="pixels")
    flip: float = setting(0.0, "probability of mirroring left and right")
    rand_augment: str | None = setting(
        None, "timm's RandAugment: rand-m9-mstd0.5-n2 is magnitude 9 ± 0.5, two layers"
    )
    augmix: str | None = setting(None, "timm's AugMix, for example augmix-m3-w3")
    erase: float = setting(0.0, "probability of erasing a box")

    def __post_init__(self) -> None:
        for name in ("flip", "erase"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, expected a probability in [0, 1]"
                )
        for name, start in (("rand_augment", "rand-"), ("augmix", "augmix-")):
            policy = getattr(self, name)
            if policy is not None and not policy.startswith(start):
                raise ValueError(f"{name} is {policy!r}, expected timm's notation: {start}m9-…")

    @property
    def is_random(self) -> bool:
        """Whether two drawings of an image may differ."""
        return self != Augmentation(padding=self.padding, crop_scale=self.crop_scale)


class TrainTransform:
    """uint8 (3, height, width) of any size -> (3, image_size, image_size).

    uint8, except after erasing, which fills boxes with normalised noise and so returns normalised
    floats.
    """

    def __init__(self, augmentation: Augmentation, preprocessing: Preprocessing) -> None:
        self.augmentation, self.preprocessing = augmentation, preprocessing
        self.steps = v2.Compose(_steps(augmentation, preprocessing))
        self.erase = None
        if augmentation.erase:
            self.erase = RandomErasing(augmentation.erase, mode="pixel", device="cpu")  # type: ignore[no-untyped-call]

    def __call__(self, pixels: Tensor) -> Tensor:
        """One drawing; random states are the caller's."""
        if self.augmentation.crop != "random_resized":
            pixels = self.preprocessing.resize_and_crop(pixels)
        if not self.augmentation.is_random:
            return pixels
        pixels = to_tensor(self.steps(to_image(pixels)))
        if self.erase is None:
            return pixels
        return self.erase(self.preprocessing.normalize(pixels[None]))[0]


def _steps(augmentation: Augmentation, preprocessing: Preprocessing) -> list[Any]:
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
