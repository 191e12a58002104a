"""Decoding with PyAV, the default: its FFmpeg comes with it."""

import gc
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.video.reformatter import Interpolation, VideoReformatter
from torch import Tensor

from videopipe.data.backends.pyav_reel import FRAME_PERIODS, Reel, Shot
from videopipe.data.backends.pyav_stream import PyavStream
from videopipe.data.decoder import (
    END_TOLERANCE_SECONDS,
    TOLERANCE_SECONDS,
    EndOfVideoError,
    VideoInfo,
    check_clip_size,
)
from videopipe.data.picture import Pixels, rows_of, scaled_size, turns_and_mirror, upright
from videopipe.errors import DecodeError

PLAIN = Interpolation.BILINEAR
# Without these flags scaled pictures come out darker by one or two grey levels.
EXACT_SCALING = Interpolation(
    Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
)

# Newer versions scale with as many threads as there are cores, which gains nothing here and hangs
# in a forked process, where the threads are gone. Older ones have no such argument.
ONE_THREAD: dict[str, Any] = (
    {"threads": 1} if "threads" in (VideoReformatter.reformat.__doc__ or "") else {}
)
_kept = threading.local()


def _reformatter() -> VideoReformatter:
    """One per thread, kept from video to video: its tables take as long to make as ten frames."""
    if not hasattr(_kept, "reformatter"):
        _kept.reformatter = VideoReformatter()
    return _kept.reformatter


class PyavDecoder:
    """See `Decoder`. Only frames that are asked for are turned into RGB."""

    def __init__(self, path: Path, short_side: int | None) -> None:
        self.path = path
        self._stream = PyavStream(path)
        try:
            self.reel = Reel(self._stream)
        except BaseException:
            self._stream.close()
            raise
        first = self.reel.shown.frame
        self.display_matrix = bytes(first.side_data.get("DISPLAYMATRIX") or b"")
        self._turns, self._mirrored = turns_and_mirror(self.display_matrix)
        self._size = scaled_size(first.height, first.width, short_side)
        self._may_skip = True

    @property
    def info(self) -> VideoInfo:
        height, width = self._size if self._turns % 2 == 0 else self._size[::-1]
        length = self.reel.length
        return VideoInfo(
            duration_seconds=length.duration_seconds,
            frame_rate=length.frame_rate,
            num_frames=length.num_frames,
            height=height,
            width=width,
            codec=self._stream.codec.name,
            pixel_format=self._stream.codec.pix_fmt or "",
            rotation_degrees=-90 * self._turns % 360,
        )

    @property
    def problems(self) -> Sequence[str]:
        found = [*self.reel.length.problems, *self.reel.notes]
        if self._stream.errors:
            found.append(f"{self._stream.errors} broken packets ({self._stream.first_error})")
        return found

    def close(self) -> None:
        self.reel.stop()
        self._stream.close()
        # PyAV ties a frame that was asked for its display matrix to itself. The collector comes by
        # rarely, so that a hundred such frames would lie about; the young are quickly looked over.
        gc.collect(1)

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        check_clip_size(self.path, len(times_seconds), *self._size)
        order = sorted(range(len(times_seconds)), key=times_seconds.__getitem__)
        wanted = [max(times_seconds[position], 0.0) + TOLERANCE_SECONDS for position in order]
        frames = np.empty((len(order), *self._size, 3), np.uint8)
        clock = None
        while clock != self.reel.clock:  # it may turn out to be wrong on the way
            clock = self.reel.clock
            if self._may_skip and not self._fill(frames, order, wanted, skip=True):
                self._may_skip = False  # this video's frames are too uneven to foresee
                self.reel.restart()
            if not self._may_skip:
                self._fill(frames, order, wanted, skip=False)
        pixels = torch.from_numpy(frames).permute(0, 3, 1, 2)
        return upright(pixels, self._turns, self._mirrored)

    def pictures(self) -> Iterator[tuple[float, Pixels]]:
        """Every frame of the video in order: when it begins, and (height, width, channels)."""
        self.reel.walk()  # which settles the clock
        self.reel.restart()
        shot: Shot | None = self.reel.shown
        while shot is not None:
            picture = torch.from_numpy(self._picture(shot.frame).copy()).permute(2, 0, 1)
            turned = upright(picture[None], self._turns, self._mirrored)[0]
            yield shot.seconds, turned.permute(1, 2, 0).numpy()
            shot = self.reel.advance()

    def _fill(
        self, frames: Pixels, order: Sequence[int], wanted: list[float], *, skip: bool
    ) -> bool:
        """Decode into `frames`; False when a frame that was left out turns out to be wanted."""
        self.reel.wanted = wanted if skip else []
        previous: tuple[Any, int] | None = None
        for position, seconds in zip(order, wanted, strict=True):
            shot = self.reel.go_to(seconds)
            if self.reel.at_end:
                if previous is None:
                    self._check_begins(seconds)
            elif (
                skip
                and seconds - shot.seconds
                > FRAME_PERIODS * self.reel.period_seconds + TOLERANCE_SECONDS
            ):
                return False
            if previous is not None and previous[0] is shot.frame:
                frames[position] = frames[previous[1]]
            else:
                frames[position] = self._picture(shot.frame)
            previous = shot.frame, position
        return True

    def _check_begins(self, seconds: float) -> None:
        """A clip may run past the end, where the last frame stays; it may not begin there."""
        end_seconds = self.reel.end_seconds
        if seconds > end_seconds + END_TOLERANCE_SECONDS:
            raise EndOfVideoError(
                self.path,
                f"frames after {seconds:.2f} s were asked for; it ends at {end_seconds:.2f} s",
            )

    def _picture(self, frame: Any) -> Pixels:
        """(height, width, channels), for as long as nothing else is asked of the decoder."""
        height, width = self._size
        scaling = (height, width) != (frame.height, frame.width)
        flags = EXACT_SCALING if scaling else PLAIN
        try:
            rgb = _reformatter().reformat(
                frame, width, height, "rgb24", interpolation=flags, **ONE_THREAD
            )
        except (av.FFmpegError, ValueError) as error:
            kind = frame.format.name
            raise DecodeError(self.path, f"its pictures ({kind}) do not convert: {error}") from None
        return rows_of(np.frombuffer(memoryview(rgb.planes[0]), np.uint8), height, width)
