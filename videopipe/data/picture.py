"""From a decoded picture to upright RGB of the wanted size."""

import math
import struct

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

Pixels = NDArray[np.uint8]


def scaled_size(height: int, width: int, short_side: int | None) -> tuple[int, int]:
    """The size when the short side shrinks to `short_side`; a smaller picture stays as it is.

    480×640 with short_side=240 -> 240×320; 240×320 with short_side=256 -> 240×320.
    The long side is cut to whole pixels as torchvision's `resize` does, so that a later resize to
    the same short side finds nothing to do.
    """
    short = min(height, width)
    if short_side is None or short <= short_side:
        return height, width
    long = int(short_side * max(height, width) / short)
    return (short_side, long) if height <= width else (long, short_side)


def shrink(frames: Tensor, short_side: int | None) -> Tensor:
    """As decoders do on the way, for those that cannot: (…, channels, height, width)."""
    height, width = scaled_size(frames.shape[-2], frames.shape[-1], short_side)
    if (height, width) == tuple(frames.shape[-2:]):
        return frames
    return transforms.resize(frames, [height, width], antialias=True)


def turns_and_mirror(display_matrix: bytes) -> tuple[int, bool]:
    """Quarter turns counter-clockwise, after a left-right mirror, that set a picture upright.

    The matrix (a, b; c, d), 16.16 fixed point, takes stored positions to shown ones, y downwards:
    (0, 1; −1, 0) moves the right edge to the bottom, so the picture turns clockwise once: 3.
    """
    if len(display_matrix) < 36:
        return 0, False
    a, b, _, c, d, *_ = struct.unpack("<9i", display_matrix[:36])
    mirrored = a * d - b * c < 0
    if mirrored:
        a, b = -a, -b
    if abs(a) >= abs(b):
        return (0 if a >= 0 else 2), mirrored
    return (3 if b > 0 else 1), mirrored


def upright(frames: Tensor, turns: int, mirrored: bool) -> Tensor:
    """Apply `turns_and_mirror` to (time, channels, height, width)."""
    if mirrored:
        frames = frames.flip(-1)
    return torch.rot90(frames, turns, (-2, -1)) if turns else frames


def mirror_too(frames: Tensor, display_matrix: bytes) -> Tensor:
    """Mend what readers leave that heed the angle of a matrix and not its mirror."""
    if not display_matrix or not turns_and_mirror(display_matrix)[1]:
        return frames
    a, b = struct.unpack("<2i", display_matrix[:8])
    turned = round(-math.degrees(math.atan2(b, a)) / 90)
    stored = torch.rot90(frames, -turned, (-2, -1))
    return upright(stored, *turns_and_mirror(display_matrix))


def rows_of(plane: Pixels, height: int, width: int) -> Pixels:
    """Packed RGB rows, padded at their ends, as (height, width, channels) without a copy."""
    line_bytes = plane.size // height
    rows = plane[: height * line_bytes].reshape(height, line_bytes)
    return rows[:, : width * 3].reshape(height, width, 3)
