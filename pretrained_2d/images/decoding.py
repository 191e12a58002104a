"""One image file of any colours, depth and orientation to a tensor."""

import struct
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from pretrained_2d.errors import ImageDataError

SUFFIXES = {
    ".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".avif",
}  # fmt: skip
# What Pillow raises on files that are truncated, have wrong headers or are not images.
BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error,
          Image.DecompressionBombError)  # fmt: skip


def decode_image(path: Path) -> Tensor:
    """uint8 (3, height, width), RGB, upright; the first picture of an animation.

    Raises:
        ImageDataError: names the file and why it cannot be read.
    """
    try:
        with Image.open(path) as image:
            return to_tensor(_to_rgb(ImageOps.exif_transpose(image)))
    except FileNotFoundError as error:
        raise ImageDataError(f"{path}: there is no such file") from error
    except BROKEN as error:
        raise ImageDataError(f"{path}: {type(error).__name__}: {error}") from error


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16") or image.mode == "I":
        # Pillow would cut 16 bits off at 255, which leaves a white picture.
        values = np.asarray(image, dtype=np.int64)
        return Image.fromarray((values // 257).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "P":
        image = image.convert("RGBA")
    return image.convert("RGB")


def to_tensor(image: Image.Image) -> Tensor:
    """uint8 (3, height, width)."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def to_image(pixels: Tensor) -> Image.Image:
    """The inverse of `to_tensor`."""
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())
