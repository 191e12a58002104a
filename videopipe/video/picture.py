"""Scaling, rotating and mirroring of decoded frames."""

import math
import struct

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

Pixels = NDArray[np.uint8]


def scaled_size(height: int, width: int, short_side: int | None) -> tuple[int, int]:
    """The size after scaling the short side down to `short_side`; smaller frames keep their size.

    480×640 with short_side=240 -> 240×320; 240×320 with short_side=256 -> 240×320.
    The long side is truncated as in torchvision's `resize`, so that a later resize to the same
    short side changes nothing.
    """
    short = min(height, width)
    if short_side is None or short <= short_side:
        return height, width
    long = int(short_side * max(height, width) / short)
    return (short_side, long) if height <= width else (long, short_side)


def shrink(frames: Tensor, short_side: int | None) -> Tensor:
    """Scale down (…, channels, height, width), for backends that cannot do it while decoding."""
    height, width = scaled_size(frames.shape[-2], frames.shape[-1], short_side)
    if (height, width) == tuple(frames.shape[-2:]):
        return frames
    return transforms.resize(frames, [height, width], antialias=True)


def turns_and_mirror(display_matrix: bytes) -> tuple[int, bool]:
    """Counter-clockwise quarter turns, and whether to mirror left-right before them.

    The matrix (a, b; c, d), 16.16 fixed point, maps stored to displayed positions, y downwards:
    (0, 1; −1, 0) moves the right edge to the bottom, a clockwise quarter turn: 3.
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


def apply_mirror(frames: Tensor, display_matrix: bytes) -> Tensor:
    """Add the mirroring for libraries that apply only the rotation of a display matrix."""
    if not display_matrix or not turns_and_mirror(display_matrix)[1]:
        return frames
    a, b = struct.unpack("<2i", display_matrix[:8])
    turned = round(-math.degrees(math.atan2(b, a)) / 90)
    stored = torch.rot90(frames, -turned, (-2, -1))
    return upright(stored, *turns_and_mirror(display_matrix))


def rows_of(plane: Pixels, height: int, width: int) -> Pixels:
    """A view (height, width, channels) of packed RGB rows that have padding at their ends."""
    line_bytes = plane.size // height
    rows = plane[: height * line_bytes].reshape(height, line_bytes)
    return rows[:, : width * 3].reshape(height, width, 3)
