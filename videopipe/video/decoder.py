"""The interface of a decoding backend, its errors, and checks that all backends share."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from videopipe.errors import DecodeError
from videopipe.video.containers import PATTERN_CHARACTERS, looks_like_pattern, playlist_kind

# Some containers round times to milliseconds: at 30 frames per second, frame 2 begins at 0.067 s
# and must be found at 2 / 30 s.
TOLERANCE_SECONDS = 6e-4
END_TOLERANCE_SECONDS = 0.5  # headers are often wrong by a few frames; more than this is a problem
EMPTY_REASON = "the file is empty"
LARGEST_CLIP_BYTES = 4 * 2**30  # a larger clip means a damaged header


@dataclass(frozen=True, kw_only=True)
class VideoInfo:
    """Properties of a video, corrected where headers are known to be wrong, after rotation."""

    duration_seconds: float  # from the first frame to the end of the last
    frame_rate: float  # mean, frames per second
    num_frames: int  # an estimate until all frames are decoded
    height: int
    width: int
    codec: str
    pixel_format: str = ""
    rotation_degrees: int = 0  # clockwise, applied to the stored frames


class Decoder(Protocol):
    """An opened video. Times are seconds from the first frame."""

    @property
    def info(self) -> VideoInfo:
        """Its properties; the duration is corrected when it is shorter than in the header."""

    @property
    def problems(self) -> Sequence[str]:
        """Problems found in the file so far, as text."""

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        """The frames shown at these times, uint8 (time, channels, height, width), RGB."""

    def close(self) -> None:
        """Close the file."""


class BackendUnavailableError(DecodeError):
    """A backend is not installed, or cannot decode this file correctly; another one can."""


class NoVideoError(DecodeError):
    """There is nothing to decode: no file or no video stream. Other backends are not tried."""


class EndOfVideoError(DecodeError):
    """The requested frames lie after the last frame that can be decoded."""


def check_file(path: Path) -> None:
    """Refuse what is not a regular file with one video; opening a pipe would block.

    Raises NoVideoError with the reason.
    """
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
    try:
        kind = playlist_kind(path)
    except OSError as error:
        raise NoVideoError(path, f"cannot be read ({error})") from None
    if kind is not None:
        raise NoVideoError(path, f"is {kind}, not a video; give the video files themselves")


def check_name(path: Path) -> None:
    """Refuse paths that FFmpeg would take for a pattern, in backends that open files by name."""
    if looks_like_pattern(path):
        raise BackendUnavailableError(
            path,
            f"its path has one of the characters {' '.join(PATTERN_CHARACTERS)}, which may stand "
            f"for other files; use the backend av, or rename it",
        )


def check_begins(path: Path, seconds: float, end_seconds: float) -> None:
    """Refuse a clip that begins after the end; one that only ends there repeats the last frame."""
    if seconds > end_seconds + END_TOLERANCE_SECONDS:
        raise EndOfVideoError(
            path, f"frames after {seconds:.2f} s were requested; it ends at {end_seconds:.2f} s"
        )


def check_clip_size(path: Path, num_frames: int, height: int, width: int) -> None:
    """Refuse clips of implausible size before memory is allocated."""
    if num_frames * height * width * 3 > LARGEST_CLIP_BYTES:
        raise DecodeError(
            path,
            f"a clip of {num_frames} frames of {width}×{height} pixels needs more than "
            f"{LARGEST_CLIP_BYTES // 2**30} GiB; the header is damaged, or `short_side` is needed",
        )
