"""The card of a checkpoint: everything but the weights that is needed to use a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # configurations import this file and must not import torch
    from torch import Tensor

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Preprocessing without augmentation: scale the short side, crop the centre, normalise.

    The one object that evaluation and prediction use, for images and for the frames of a clip.
    """

    image_size: int = 224  # pixels, height and width of the crop
    resize: int = 256  # pixels, short side before the crop
    crop_first: int | None = None  # pixels, centre cut out before anything else (Celeb-A: 178)
    mean: tuple[float, ...] = IMAGENET_MEAN  # of values in [0, 1]
    std: tuple[float, ...] = IMAGENET_STD
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    squash: bool = False  # scale both sides to `resize`, whatever the aspect ratio

    def resize_and_crop(self, frames: "Tensor") -> "Tensor":
        """uint8 (…, channels, height, width) -> uint8 (…, channels, image_size, image_size)."""
        from torchvision.transforms.v2 import functional as transforms

        if self.crop_first is not None:
            frames = transforms.center_crop(frames, [self.crop_first, self.crop_first])
        mode = transforms.InterpolationMode(self.interpolation)
        size = [self.resize] * (2 if self.squash else 1)
        frames = transforms.resize(frames, size, interpolation=mode, antialias=True)
        return transforms.center_crop(frames, [self.image_size, self.image_size])

    def normalize(self, signal: "Tensor") -> "Tensor":
        """uint8 (batch, channels, *axes) -> float32 of the same shape, mean 0 and std 1."""
        import torch

        def by_channel(values: Sequence[float]) -> "Tensor":
            # Filled on the device: copying a list would synchronise host and device in every step.
            filled = [torch.full((), float(value), device=signal.device) for value in values]
            return torch.stack(filled).view((1, -1) + (1,) * (signal.ndim - 2)) * 255

        return (signal.float() - by_channel(self.mean)) / by_channel(self.std)


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The content of `config.json`, from which the model is rebuilt without its weights."""

    architecture: str  # "convnext_tiny", "timm/resnet18", …
    options: Mapping[str, Any] = field(default_factory=dict)  # keywords of the builder, JSON
    ndim: int = 2  # 2: images, 3: clips (time, height, width)
    labels: tuple[str, ...] | None = None
    multi_label: bool = False  # classes are independent: sigmoid, not softmax
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    num_frames: int | None = None  # per clip
    clip_seconds: float | None = None
    inflation: Mapping[str, Any] | None = None  # how a folded 2D network gained its time axis
    probe: Mapping[str, Any] | None = None  # features and head of a probed network
    provenance: Mapping[str, Any] = field(default_factory=dict)  # parent, method, numbers reached

    @property
    def is_encoder(self) -> bool:
        """Whether the model has no classifying layer: its output is features."""
        return self.probe is None and self.options.get("num_classes") == 0
