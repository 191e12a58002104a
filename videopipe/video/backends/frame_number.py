"""Frames by time from a library that addresses frames by number."""

import bisect
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from videopipe.video.backends.timeline import read_timeline
from videopipe.video.decoder import (
    TOLERANCE_SECONDS,
    BackendUnavailableError,
    VideoInfo,
    check_begins,
    check_clip_size,
    check_name,
)
from videopipe.video.picture import apply_mirror, scaled_size, shrink

FRAMES_AT_A_TIME = 32


class FrameNumberDecoder:
    """See `Decoder`. A backend implements `_open`, `_read` and `close`.

    Where seeking by number is unreliable, frames are read from the start and in order.
    """

    def __init__(self, path: Path, short_side: int | None) -> None:
        self.path = path
        check_name(path)
        self._timeline = read_timeline(path)
        if self._timeline.format_name == "mpegts":
            raise BackendUnavailableError(
                path, "frame numbers are unreliable in MPEG-TS; use the backend av"
            )
        if self._timeline.info.pixel_format == "pal8":
            raise BackendUnavailableError(
                path, "the palette of its frames is lost in this backend; use the backend av"
            )
        self._short_side = short_side
        self._next = 0  # number of the next frame to read
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Open the file, or open it again."""

    @abstractmethod
    def _read(self, numbers: Sequence[int]) -> Tensor:
        """Frames by number, in ascending order, uint8 (time, channels, height, width)."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    @property
    def info(self) -> VideoInfo:
        info = self._timeline.info
        height, width = scaled_size(info.height, info.width, self._short_side)
        return replace(info, height=height, width=width)

    @property
    def problems(self) -> Sequence[str]:
        return self._timeline.problems

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        info = self.info
        check_clip_size(self.path, len(times_seconds), info.height, info.width)
        starts = self._timeline.times_seconds
        check_begins(self.path, min(times_seconds), max(info.duration_seconds, starts[-1]))
        numbers = [
            max(0, bisect.bisect_right(starts, time + TOLERANCE_SECONDS) - 1)
            for time in times_seconds
        ]
        wanted = sorted(set(numbers))
        frames = self._seeking(wanted) if self._timeline.may_seek else self._in_order(wanted)
        frames = apply_mirror(frames, self._timeline.display_matrix)
        place = {number: position for position, number in enumerate(wanted)}
        return frames[[place[number] for number in numbers]]

    def _seeking(self, wanted: Sequence[int]) -> Tensor:
        parts = [
            self._shrunk(self._read(wanted[first : first + FRAMES_AT_A_TIME]))
            for first in range(0, len(wanted), FRAMES_AT_A_TIME)
        ]
        return torch.cat(parts)

    def _in_order(self, wanted: Sequence[int]) -> Tensor:
        if wanted[0] < self._next:
            self._open()
            self._next = 0
        parts = []
        while self._next <= wanted[-1]:
            numbers = range(self._next, min(self._next + FRAMES_AT_A_TIME, wanted[-1] + 1))
            frames = self._read(numbers)
            chosen = [number - self._next for number in wanted if number in numbers]
            if chosen:
                parts.append(self._shrunk(frames[chosen]))
            self._next = numbers[-1] + 1
        return torch.cat(parts)

    def _shrunk(self, frames: Tensor) -> Tensor:
        found, info = tuple(frames.shape[-2:]), self._timeline.info
        if found != (info.height, info.width):
            raise BackendUnavailableError(
                self.path,
                f"its frames have {found[1]}×{found[0]} pixels instead of {info.width}×"
                f"{info.height}: this backend reads another stream of the file; use the backend av",
            )
        return shrink(frames, self._short_side)
