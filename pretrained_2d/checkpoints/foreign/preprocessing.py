"""Default preprocessing per architecture, for checkpoints without any."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Any

from torch import nn

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.networks.libraries.transformers_video import FAMILIES

HALF = (0.5, 0.5, 0.5)  # as mean and as deviation: values in [-1, 1]
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)


@dataclass(frozen=True)
class DefaultInputs:
    """Inputs on which the published weights of an architecture were trained."""

    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    num_frames: int | None = None
    clip_seconds: float | None = None
    labels: tuple[str, ...] | None = None


def crop_to_resize(image_size: int, crop: float) -> int:
    """The short side of which a centre crop of `image_size` pixels is the fraction `crop`."""
    return floor(image_size / crop + 1e-9)


_CONVNEXT = Preprocessing(interpolation="bicubic")
DEFAULTS: Mapping[str, DefaultInputs] = {
    "convnext_tiny": DefaultInputs(_CONVNEXT, num_frames=30, clip_seconds=2.0),
    "convnext_micro": DefaultInputs(_CONVNEXT, num_frames=30, clip_seconds=2.0),
    "vit_base": DefaultInputs(
        Preprocessing(resize=248, mean=HALF, std=HALF, interpolation="bicubic")
    ),
    "isotropic": DefaultInputs(
        Preprocessing(image_size=32, resize=32, mean=CIFAR_MEAN, std=CIFAR_STD),
        num_frames=16,
        clip_seconds=1.0,
    ),
    "inception": DefaultInputs(
        Preprocessing(mean=HALF, std=HALF), num_frames=64, clip_seconds=2.56
    ),
    "inception_i3d": DefaultInputs(
        Preprocessing(mean=HALF, std=HALF), num_frames=64, clip_seconds=2.56
    ),
}
# Frames and frames per second of torchvision's published video weights.
TORCHVISION_CLIPS = {
    "s3d": (128, 15.0),
    "mvit_v1_b": (16, 7.5),
    "mvit_v2_s": (16, 7.5),
    "swin3d_t": (32, 15.0),
    "swin3d_s": (32, 15.0),
    "swin3d_b": (32, 15.0),
}


def default_inputs(architecture: str, network: nn.Module, file_name: str) -> DefaultInputs:
    """The default inputs of an architecture; a file with a published name is recognised by it."""
    library, _, name = architecture.partition("/")
    if library == "timm" and name:
        return _of_timm(network)
    if library == "torchvision" and name:
        return _of_torchvision(name, file_name)
    if library == "transformers" and name:
        frames: int = network.num_frames  # type: ignore[assignment]
        size: int = network.image_size  # type: ignore[assignment]
        seconds = frames / FAMILIES[name].frame_rate
        return DefaultInputs(Preprocessing(image_size=size, resize=size), frames, seconds)
    return DEFAULTS[architecture]


def has_image_size(architecture: str) -> bool:
    """Whether a network is built for one size of images, as those with position tables are."""
    import timm

    library, _, name = architecture.partition("/")
    if library == "torchvision":
        return name.startswith("vit_")
    config = timm.models.get_pretrained_cfg(name) if library == "timm" else None
    return bool(config is not None and config.fixed_input_size)


def _of_timm(network: nn.Module) -> DefaultInputs:
    from timm import data

    config: dict[str, Any] = data.resolve_data_config({}, model=network.network)  # type: ignore
    size = config["input_size"][-1]
    bicubic = config["interpolation"] == "bicubic"
    return DefaultInputs(
        Preprocessing(
            image_size=size,
            resize=crop_to_resize(size, config["crop_pct"]),
            mean=tuple(config["mean"]),
            std=tuple(config["std"]),
            interpolation="bicubic" if bicubic else "bilinear",
        )
    )


def _of_torchvision(name: str, file_name: str) -> DefaultInputs:
    from torchvision import models

    published = list(models.get_model_weights(name))
    same_file = [w for w in published if w.url.rpartition("/")[2] == file_name]
    weights = (same_file or published[:1] or [None])[0]
    if weights is None:
        return DefaultInputs()
    transforms: Any = weights.transforms()
    mean, std = tuple(transforms.mean), tuple(transforms.std)
    if name in (
        "googlenet",
        "inception_v3",
    ):  # with weights, it rescales to [-1, 1] itself
        mean = std = HALF
    size, resize = transforms.crop_size[0], min(transforms.resize_size)
    preprocessing = Preprocessing(
        image_size=size,
        resize=resize,
        mean=mean,
        std=std,
        interpolation="bicubic" if "bicubic" in str(transforms.interpolation) else "bilinear",
    )
    labels = tuple(weights.meta["categories"]) if same_file else None
    if name not in models.list_models(module=models.video):
        return DefaultInputs(preprocessing, labels=labels)
    frames, frame_rate = TORCHVISION_CLIPS.get(name, (16, 15.0))
    return DefaultInputs(preprocessing, frames, frames / frame_rate, labels)
