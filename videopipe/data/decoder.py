"""What every decoding backend provides: frames by time."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from videopipe.errors import DecodeError

# Containers that count milliseconds round their times: frame 2 of 30 per second lies at 0.067 s,
# and must be found at 2 / 30 s.
TOLERANCE_SECONDS = 6e-4
END_TOLERANCE_SECONDS = 0.5  # headers are off by a few frames; beyond this they lied
EMPTY_REASON = "the file is empty"
LARGEST_CLIP_BYTES = 4 * 2**30  # more than this is a damaged header, not a film


@dataclass(frozen=True, kw_only=True)
class VideoInfo:
    """What a video says of itself, mended where it is known to lie. Sizes are upright."""

    duration_seconds: float  # from the first frame to the end of the last
    frame_rate: float  # mean, frames per second
    num_frames: int  # as far as known without decoding
    height: int
    width: int
    codec: str
    pixel_format: str = ""
    rotation_degrees: int = 0  # clockwise, by which the stored picture was turned upright


class Decoder(Protocol):
    """An opened video. Times are seconds from the first frame."""

    @property
    def info(self) -> VideoInfo:
        """What is known; the duration shrinks when less decodes than the header promised."""

    @property
    def problems(self) -> Sequence[str]:
        """What was found wrong with the file so far, in words."""

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        """The frames shown at these times, uint8 (time, channels, height, width), RGB."""

    def close(self) -> None:
        """Let go of the file."""


class BackendUnavailableError(DecodeError):
    """A backend is not installed, or cannot serve this file correctly; another one can."""


class NoVideoError(DecodeError):
    """There is nothing to decode: no file, no video stream. No other backend need be tried."""


class EndOfVideoError(DecodeError):
    """Frames were asked for after the end of what decodes: the header promised more."""


def check_file(path: Path) -> None:
    """Say in words what opening would only hint at; opening a pipe would wait for ever."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise NoVideoError(path, "no such file") from None
    except (OSError, ValueError) as error:
        raise NoVideoError(path, f"cannot be read ({error})") from None
    if not stat.S_ISREG(status.st_mode):
        raise NoVideoError(path, "is not a file (a folder, a pipe or a device)")
    if status.st_size == 0:
        raise NoVideoError(path, EMPTY_REASON)


def check_clip_size(path: Path, num_frames: int, height: int, width: int) -> None:
    """Refuse clips that no honest file holds, before memory is asked for."""
    if num_frames * height * width * 3 > LARGEST_CLIP_BYTES:
        raise DecodeError(
            path,
            f"a clip of {num_frames} frames of {width}×{height} pixels needs more than "
            f"{LARGEST_CLIP_BYTES // 2**30} GiB; the header is damaged, or `short_side` is needed",
        )
