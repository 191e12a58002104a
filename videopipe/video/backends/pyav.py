"""Decoding with PyAV, the default backend; it includes FFmpeg."""

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

from videopipe.errors import DecodeError
from videopipe.system.pool_worker import heartbeat
from videopipe.video.backends.pyav_cursor import FRAME_PERIODS, FrameCursor, TimedFrame
from videopipe.video.backends.pyav_stream import PyavStream
from videopipe.video.decoder import (
    TOLERANCE_SECONDS,
    VideoInfo,
    check_begins,
    check_clip_size,
)
from videopipe.video.picture import Pixels, rows_of, scaled_size, turns_and_mirror, upright

PLAIN = Interpolation.BILINEAR
# Without these flags scaled images are darker by one or two grey levels.
EXACT_SCALING = Interpolation(
    Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
)

# Newer versions of PyAV scale with one thread per core. This gains nothing here, and it hangs in a
# forked process, where the threads do not exist. Older versions have no such argument.
ONE_THREAD: dict[str, Any] = (
    {"threads": 1} if "threads" in (VideoReformatter.reformat.__doc__ or "") else {}
)
_kept = threading.local()


def _reformatter() -> VideoReformatter:
    """One per thread, reused for all videos: building its tables costs as much as ten frames."""
    if not hasattr(_kept, "reformatter"):
        _kept.reformatter = VideoReformatter()
    return _kept.reformatter


class PyavDecoder:
    """See `Decoder`. Only requested frames are converted to RGB."""

    def __init__(self, path: Path, short_side: int | None) -> None:
        self.path = path
        self._stream = PyavStream(path)
        try:
            self.cursor = FrameCursor(self._stream)
        except BaseException:
            self._stream.close()
            raise
        first = self.cursor.shown.frame
        self.display_matrix = bytes(first.side_data.get("DISPLAYMATRIX") or b"")
        self._turns, self._mirrored = turns_and_mirror(self.display_matrix)
        self._size = scaled_size(first.height, first.width, short_side)
        self._may_skip = True

    @property
    def info(self) -> VideoInfo:
        height, width = self._size if self._turns % 2 == 0 else self._size[::-1]
        length = self.cursor.length
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
        found = [*self.cursor.length.problems, *self.cursor.notes]
        if self._stream.errors:
            found.append(f"{self._stream.errors} broken packets ({self._stream.first_error})")
        return found

    def close(self) -> None:
        self.cursor.stop()
        self._stream.close()
        # Reading the display matrix of a PyAV frame creates a reference cycle. Full collections are
        # rare, so about a hundred such frames would stay in memory. Collecting the two youngest
        # generations is fast.
        gc.collect(1)

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        check_clip_size(self.path, len(times_seconds), *self._size)
        order = sorted(range(len(times_seconds)), key=times_seconds.__getitem__)
        wanted = [max(times_seconds[position], 0.0) + TOLERANCE_SECONDS for position in order]
        frames = np.empty((len(order), *self._size, 3), np.uint8)
        clock = None
        while clock != self.cursor.clock:  # decoding may find that the clock is wrong
            clock = self.cursor.clock
            if self._may_skip and not self._fill(frames, order, wanted, skip=True):
                self._may_skip = False  # the frames of this video are not evenly spaced
                self.cursor.restart()
            if not self._may_skip:
                self._fill(frames, order, wanted, skip=False)
        pixels = torch.from_numpy(frames).permute(0, 3, 1, 2)
        return upright(pixels, self._turns, self._mirrored)

    def pictures(self) -> Iterator[tuple[float, Pixels]]:
        """All frames in order: when each begins, and its pixels (height, width, channels)."""
        self.cursor.decode_all()  # determines the clock
        self.cursor.restart()
        timed: TimedFrame | None = self.cursor.shown
        while timed is not None:
            picture = torch.from_numpy(self._picture(timed.frame).copy()).permute(2, 0, 1)
            turned = upright(picture[None], self._turns, self._mirrored)[0]
            yield timed.seconds, turned.permute(1, 2, 0).numpy()
            heartbeat()
            timed = self.cursor.advance()

    def _fill(
        self, frames: Pixels, order: Sequence[int], wanted: list[float], *, skip: bool
    ) -> bool:
        """Decode into `frames`; False when a skipped frame turns out to be needed."""
        self.cursor.wanted = wanted if skip else []
        previous: tuple[Any, int] | None = None
        for position, seconds in zip(order, wanted, strict=True):
            timed = self.cursor.go_to(seconds)
            if self.cursor.at_end:
                if previous is None:
                    check_begins(self.path, seconds, self.cursor.end_seconds)
            elif (
                skip
                and seconds - timed.seconds
                > FRAME_PERIODS * self.cursor.period_seconds + TOLERANCE_SECONDS
            ):
                return False
            if previous is not None and previous[0] is timed.frame:
                frames[position] = frames[previous[1]]
            else:
                frames[position] = self._picture(timed.frame)
            previous = timed.frame, position
        return True

    def _picture(self, frame: Any) -> Pixels:
        """(height, width, channels); valid until the decoder is used again."""
        height, width = self._size
        scaling = (height, width) != (frame.height, frame.width)
        flags = EXACT_SCALING if scaling else PLAIN
        try:
            rgb = _reformatter().reformat(
                frame, width, height, "rgb24", interpolation=flags, **ONE_THREAD
            )
        except (av.FFmpegError, ValueError) as error:
            kind = frame.format.name
            raise DecodeError(
                self.path, f"its frames ({kind}) cannot be converted to RGB: {error}"
            ) from None
        return rows_of(np.frombuffer(memoryview(rgb.planes[0]), np.uint8), height, width)
