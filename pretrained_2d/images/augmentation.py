"""The settings of image augmentation, quick to import; `image_transform.py` applies them."""

from dataclasses import dataclass
from typing import Literal

from pretrained_2d.setting import setting


@dataclass(frozen=True, kw_only=True)
class ImageAugmentation:
    """Augmentation of training images. The default is none: resize and crop as in evaluation."""

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
        """Whether two augmentations of an image may differ."""
        return self != ImageAugmentation(padding=self.padding, crop_scale=self.crop_scale)
