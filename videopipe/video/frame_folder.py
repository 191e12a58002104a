"""A folder of numbered images as a video: `00001.jpg`, `frames_000123.png`, `img_00001.jpg`.

Images have no time of their own. The frame rate is given by the user, and frame number n begins at
(n − first number) / rate seconds.
"""

import bisect
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from videopipe.errors import DecodeError
from videopipe.system.pool_worker import heartbeat
from videopipe.video.decoder import (
    TOLERANCE_SECONDS,
    NoVideoError,
    VideoInfo,
    check_begins,
    check_clip_size,
)
from videopipe.video.picture import scaled_size, shrink

IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp"})
NUMBERED = re.compile(r"(.*?)(\d+)(\.[^.]+)")
# Folders of frames often hold optical flow too (flow_x_00001.jpg); these prefixes are the pictures.
PICTURE_PREFIXES = ("img", "image", "frame")
CODEC = "frames"  # of folders, in manifests
LEAST_FRAMES = 2
MOST_MISSING = 0.5  # of the numbers from first to last; with more the images are not one sequence


def frame_names(names: Iterable[str]) -> dict[int, str]:
    """The file name of every frame number; empty when the names are not frames of one video."""
    sequences = defaultdict[tuple[str, str], dict[int, str]](dict)
    for name in names:
        found = NUMBERED.fullmatch(name)
        if found and found[3].lower() in IMAGE_SUFFIXES and not name.startswith("."):
            sequences[found[1], found[3]][int(found[2])] = name
        elif os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:  # noqa: PTH122 - millions
            return {}  # a picture without a number: an album, not a video
    if len(sequences) > 1:
        pictures = [key for key in sequences if key[0].lower().startswith(PICTURE_PREFIXES)]
        sequences = defaultdict(dict, {key: sequences[key] for key in pictures})
    if len(sequences) != 1:
        return {}
    frames = next(iter(sequences.values()))
    return frames if len(frames) >= LEAST_FRAMES else {}


def is_frame_folder(folder: Path) -> bool:
    """Whether the folder holds the frames of one video."""
    try:
        with os.scandir(folder) as entries:
            return bool(frame_names(entry.name for entry in entries))
    except OSError:
        return False


class FrameFolderDecoder:
    """See `Decoder`. A missing number shows the frame before it and is listed in `problems`."""

    def __init__(
        self, path: Path, short_side: int | None = None, frame_rate: float | None = None
    ) -> None:
        self.path, self._short_side = path, short_side
        try:
            with os.scandir(path) as entries:
                names = frame_names(entry.name for entry in entries if entry.is_file())
        except OSError as error:
            raise NoVideoError(path, f"the folder cannot be read ({error.strerror})") from None
        if not names:
            raise NoVideoError(
                path, "is a folder; expected a video file, or a folder of numbered images of one "
                "sequence (00001.jpg, 00002.jpg, …)",
            )  # fmt: skip
        if frame_rate is None:
            raise NoVideoError(
                path, f"is a folder of {len(names)} numbered images without a frame rate; give "
                "--frame-rate (frame_rate in a pipeline), or a column frame_rate in the list",
            )  # fmt: skip
        self._numbers = sorted(names)
        self._names, self._rate = names, float(frame_rate)
        self._count = self._numbers[-1] - self._numbers[0] + 1
        self._missing = self._count - len(names)
        if self._missing > MOST_MISSING * self._count:
            raise DecodeError(
                path, f"the images are numbered {self._numbers[0]} to {self._numbers[-1]}, but "
                f"there are only {len(names)}; expected consecutive frames of one video",
            )  # fmt: skip
        self._full_size = self._size = (0, 0)
        first = self._picture(self._numbers[0])
        self._full_size = (first.shape[-2], first.shape[-1])
        self._size = scaled_size(*self._full_size, short_side)

    @property
    def info(self) -> VideoInfo:
        return VideoInfo(
            duration_seconds=self._count / self._rate,
            frame_rate=self._rate,
            num_frames=self._count,
            height=self._size[0],
            width=self._size[1],
            codec=CODEC,
        )

    @property
    def problems(self) -> Sequence[str]:
        if not self._missing:
            return []
        pairs = zip(self._numbers, self._numbers[1:], strict=False)
        first = next(before + 1 for before, after in pairs if after > before + 1)
        return [f"{self._missing} frames are missing, the first is number {first}"]

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        check_clip_size(self.path, len(times_seconds), *self._size)
        check_begins(self.path, min(times_seconds), self._count / self._rate)
        numbers = [self._number_at(time) for time in times_seconds]
        frames = {number: self._scaled(number) for number in sorted(set(numbers))}
        return torch.stack([frames[number] for number in numbers])

    def decode_all(self) -> None:
        """Decode every frame; the first that cannot be decoded raises DecodeError."""
        for number in self._numbers:
            self._picture(number)
            heartbeat()

    def close(self) -> None:
        """Files are closed after every frame."""

    def _number_at(self, seconds: float) -> int:
        wanted = self._numbers[0] + int((max(seconds, 0.0) + TOLERANCE_SECONDS) * self._rate)
        return self._numbers[bisect.bisect_right(self._numbers, wanted) - 1]

    def _scaled(self, number: int) -> Tensor:
        return shrink(self._picture(number), self._short_side)

    def _picture(self, number: int) -> Tensor:
        """uint8 (channels, height, width)."""
        name = self._names[number]
        try:
            with Image.open(self.path / name) as image:
                pixels = np.array(image.convert("RGB"))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            raise DecodeError(self.path, f"frame {name} cannot be decoded ({error})") from None
        height, width = pixels.shape[:2]
        if self._full_size not in ((0, 0), (height, width)):
            raise DecodeError(
                self.path, f"frame {name} has {width}×{height} pixels, the first has "
                f"{self._full_size[1]}×{self._full_size[0]}",
            )  # fmt: skip
        return torch.from_numpy(pixels).permute(2, 0, 1)
