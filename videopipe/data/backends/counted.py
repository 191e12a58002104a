"""Frames by time from a reader that only knows frames by number."""

import bisect
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from videopipe.data.backends.timeline import read_timeline
from videopipe.data.decoder import (
    END_TOLERANCE_SECONDS,
    TOLERANCE_SECONDS,
    BackendUnavailableError,
    EndOfVideoError,
    VideoInfo,
    check_clip_size,
)
from videopipe.data.picture import mirror_too, scaled_size, shrink

FRAMES_AT_A_TIME = 32


class CountedDecoder:
    """See `Decoder`. What a backend adds is `_open` and `_read`.

    Where the reader cannot be trusted to jump, it reads from the start and in order.
    """

    def __init__(self, path: Path, short_side: int | None) -> None:
        self.path = path
        self._timeline = read_timeline(path)
        if self._timeline.format_name == "mpegts":
            raise BackendUnavailableError(path, "readers that count lose count in MPEG-TS; use av")
        if self._timeline.info.pixel_format == "pal8":
            raise BackendUnavailableError(path, "it loses the palette of the pictures; use av")
        self._short_side = short_side
        self._next = 0  # the number of the frame after those read
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Open the file, again if it was open."""

    @abstractmethod
    def _read(self, numbers: Sequence[int]) -> Tensor:
        """Frames by number, ascending, uint8 (time, channels, height, width)."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""

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
        end_seconds = max(info.duration_seconds, starts[-1])
        if min(times_seconds) > end_seconds + END_TOLERANCE_SECONDS:
            raise EndOfVideoError(
                self.path,
                f"frames after {min(times_seconds):.2f} s were asked for; "
                f"it ends at {end_seconds:.2f} s",
            )
        numbers = [
            max(0, bisect.bisect_right(starts, time + TOLERANCE_SECONDS) - 1)
            for time in times_seconds
        ]
        wanted = sorted(set(numbers))
        frames = self._jumping(wanted) if self._timeline.may_jump else self._in_order(wanted)
        frames = mirror_too(frames, self._timeline.display_matrix)
        place = {number: position for position, number in enumerate(wanted)}
        return frames[[place[number] for number in numbers]]

    def _jumping(self, wanted: Sequence[int]) -> Tensor:
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
                f"its pictures have {found[1]}×{found[0]} pixels instead of "
                f"{info.width}×{info.height}: it reads another stream of the file; use av",
            )
        return shrink(frames, self._short_side)
