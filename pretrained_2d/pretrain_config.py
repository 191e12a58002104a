"""The settings of a pretraining."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pretrained_2d.images.augmentation import ImageAugmentation
from pretrained_2d.setting import setting
from pretrained_2d.training.recipe import Recipe

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class PhaseConfig:
    """A phase of progressive training; warm-up and decay of the rate start again in each."""

    epochs: int = setting(help="epochs of this phase; the sum over phases replaces recipe.epochs")
    size: int | None = setting(None, "training size; image_size if not given", unit="pixels")
    bandlimit: float | None = setting(None, "bandlimit of all S4ND layers; null: none")


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """The network, the images, the resolutions and the recipe of a pretraining."""

    architecture: str = setting(help="a network that `videopipe models` lists")
    options: dict[str, Any] = setting(
        default_factory=dict, help="options of the network; `axis` changes its default axes"
    )
    data: Path | None = setting(None, "folder of images; not needed with the input `data`")
    large_data: Path | None = setting(
        None, "as data, for very many files: they are not listed to detect changes", runtime=True
    )
    data_version: str | None = setting(
        None, "version of large_data, such as 2012; another version means other data"
    )

    image_size: int = setting(224, "side of the base resolution, which has rate 1", unit="pixels")
    resize: int | None = setting(None, "short side before the crop; image_size if not given")
    crop_first: int | None = setting(None, "centre cut out before resizing", unit="pixels")
    interpolation: Literal["bilinear", "bicubic"] = setting("bilinear", "filter of the resizing")
    mean: tuple[float, float, float] = setting(IMAGENET_MEAN, "mean of values in [0, 1]")
    std: tuple[float, float, float] = setting(IMAGENET_STD, "deviation of values in [0, 1]")
    train_size: int | None = setting(None, "side of training images; image_size if not given")
    test_sizes: tuple[int, ...] = setting(
        (), "sizes to evaluate besides image_size; the best network at each is kept", unit="pixels"
    )
    phases: tuple[PhaseConfig, ...] = setting((), "progressive training, instead of train_size")

    augmentation: ImageAugmentation = setting(
        default_factory=ImageAugmentation, help="augmentation of training images"
    )
    recipe: Recipe = setting(default_factory=Recipe, help="how to train")
    objective: Literal["auto", "cross_entropy", "binary_cross_entropy"] = setting(
        "auto", "auto: binary for attributes (Celeb-A), else classes"
    )
    monitor: tuple[str, ...] = setting(
        ("accuracy",), "metrics whose best networks are kept; the first gives the result"
    )
    validation_share: float = setting(0.1, "share of training images, if there is no val split")
    max_images: int | None = setting(None, "number of training images to use, for trials")
    max_test_images: int | None = setting(None, "number of validation and of test images to use")
    max_broken: int = setting(0, "images per split that may be unreadable; they are left out")
    test_batch_size: int = setting(256, "images per batch in evaluation", runtime=True)

    def __post_init__(self) -> None:
        if self.data is not None and self.large_data is not None:
            raise ValueError("data and large_data are both given; give one of them")
        if self.large_data is not None and not self.data_version:
            raise ValueError("data_version is missing; large_data needs it to notice other data")
        if self.phases and self.train_size is not None:
            raise ValueError("train_size and phases are both given; phases have their own sizes")
        if not 0 < self.validation_share < 1:
            raise ValueError(f"validation_share is {self.validation_share}, expected within (0, 1)")

    @property
    def sizes(self) -> tuple[int, ...]:
        """All sizes that are evaluated, the smallest first."""
        return tuple(sorted({*self.test_sizes, self.image_size}))
