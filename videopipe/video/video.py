"""Opening videos: `with open_video(path) as video: video.frames_at([0.0, 0.5])`."""

import importlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from videopipe.errors import DecodeError, first_line
from videopipe.video.decoder import (
    BackendUnavailableError,
    Decoder,
    EndOfVideoError,
    NoVideoError,
    VideoInfo,
    check_file,
)
from videopipe.video.frame_folder import CODEC, FrameFolderDecoder

__all__ = ["BACKENDS", "DecodeError", "EndOfVideoError", "Video", "VideoInfo", "open_video"]

log = logging.getLogger(__name__)

# The module and class of each backend, imported on first use; the class takes (path, short_side).
BACKENDS: dict[str, tuple[str, str]] = {
    "av": ("videopipe.video.backends.pyav", "PyavDecoder"),
    "torchcodec": ("videopipe.video.backends.torchcodec_reader", "TorchcodecDecoder"),
    "decord": ("videopipe.video.backends.decord_reader", "DecordDecoder"),
    "pytorchvideo": ("videopipe.video.backends.pytorchvideo_reader", "PytorchvideoDecoder"),
}
# What `auto` tries, fastest first as measured by tools/bench_decode.py. decord is not included: it
# can hang on files that the others refuse.
AUTO_ORDER = ("av", "torchcodec")
_unavailable: dict[str, str] = {}  # backend -> reason, so that a failed import is not repeated


class Video:
    """An opened video. Frames are addressed by time: seconds from the first frame.

    The frame at time t is the one shown then: the last that begins at or before t. A clip that
    ends after the video repeats the last frame; a clip that begins after it raises
    `EndOfVideoError`. When less can be decoded than the header declares, `duration_seconds` is
    corrected and `problems` has an entry.
    """

    def __init__(self, path: Path, decoder: Decoder, backend: str) -> None:
        self.path = path
        self.backend = backend
        self._decoder = decoder

    @property
    def info(self) -> VideoInfo:
        return self._decoder.info

    @property
    def duration_seconds(self) -> float:
        return self._decoder.info.duration_seconds

    @property
    def frame_rate(self) -> float:
        return self._decoder.info.frame_rate

    @property
    def height(self) -> int:
        return self._decoder.info.height

    @property
    def width(self) -> int:
        return self._decoder.info.width

    @property
    def problems(self) -> Sequence[str]:
        """Problems found so far; such a video is used as far as it can be decoded."""
        return self._decoder.problems

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        """uint8 (time, channels, height, width), RGB, upright, in the order of the times."""
        times = [float(time) for time in times_seconds]
        if any(time != time or time == float("inf") for time in times):
            raise ValueError(f"{self.path}: times must be finite seconds, got {times}")
        if not times:
            return torch.empty((0, 3, self.height, self.width), dtype=torch.uint8)
        return self._decoder.frames_at(times)

    def close(self) -> None:
        self._decoder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_video(
    path: Path | str,
    backend: str = "auto",
    short_side: int | None = None,
    *,
    frame_rate: float | None = None,
) -> Video:
    """Open a video with a named backend, or with the fastest one that works on this file.

    With `short_side` (pixels) larger frames are scaled down while decoding; smaller ones are not
    changed. A folder of numbered images is a video with the given `frame_rate`; the backend and,
    for files, the frame rate are ignored. Raises DecodeError when the video cannot be used.
    """
    path = Path(path).absolute()  # FFmpeg would take "a:b.mp4" for a URL
    if path.is_dir():
        return Video(path, FrameFolderDecoder(path, short_side, frame_rate), CODEC)
    check_file(path)
    if backend != "auto":
        return Video(path, load_backend(backend)(path, short_side), backend)
    reasons: list[DecodeError] = []
    for name in AUTO_ORDER:
        try:
            video = Video(path, load_backend(name)(path, short_side), name)
        except NoVideoError:
            raise
        except DecodeError as error:
            reasons.append(error)
            continue
        if reasons:
            log.warning("%s: %s; decoding it with %s instead", path, reasons[0].reason, name)
        return video
    raise reasons[0]


def load_backend(name: str) -> Callable[[Path, int | None], Decoder]:
    """The class of a backend; BackendUnavailableError when its library is missing or broken."""
    if name not in BACKENDS:
        raise ValueError(f"unknown backend {name!r}; known: auto, {', '.join(BACKENDS)}")
    module, attribute = BACKENDS[name]
    if name not in _unavailable:
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, OSError, RuntimeError) as error:
            reason = first_line(error)
            _unavailable[name] = f"backend {name!r} does not work on this machine: {reason}"
    raise BackendUnavailableError("", _unavailable[name])
