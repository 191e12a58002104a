"""Frames of a video that is still being written: a pipe, or a file that grows."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import av
import torch
from torch import Tensor

from videopipe.errors import DecodeError
from videopipe.video.backends.pyav_stream import READING
from videopipe.video.containers import READING_OPTIONS
from videopipe.video.picture import turns_and_mirror, upright

POLL_SECONDS = 0.1


class GrowingFile:
    """A file for FFmpeg that ends when nothing has been appended for `patience_seconds`."""

    def __init__(self, file: BinaryIO, patience_seconds: float) -> None:
        self.file = file
        self.patience_seconds = patience_seconds
        self.ended = False

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; waits for more at the end of the file."""
        if self.ended:  # FFmpeg asks several times
            return b""
        end = time.monotonic() + self.patience_seconds
        while not (found := self.file.read(size)) and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
        self.ended = not found
        return found


def stream_frames(
    source: BinaryIO, name: str, period_seconds: float, patience_seconds: float = 0
) -> Iterator[tuple[float, Tensor]]:
    """(seconds, uint8 (channels, height, width)): the frame shown every `period_seconds`.

    A frame is yielded as soon as a later one has arrived. The container must be readable without
    seeking: MPEG-TS, Matroska, fragmented MP4. Raises DecodeError for anything else.
    """
    path = Path(name)
    container: Any
    try:
        container = av.open(
            GrowingFile(source, patience_seconds),
            container_options=READING_OPTIONS,
            **READING,
        )
    except (av.FFmpegError, OSError, ValueError) as error:
        raise DecodeError(
            path,
            f"cannot be read as a stream ({error}); write MPEG-TS, Matroska or fragmented MP4",
        ) from None
    with container:
        if not container.streams.video:
            raise DecodeError(path, "has no video stream")
        try:
            yield from _at_period(container.decode(container.streams.video[0]), period_seconds)
        except av.FFmpegError as error:
            raise DecodeError(path, f"breaks off ({error})") from None


def _at_period(frames: Iterator[Any], period_seconds: float) -> Iterator[tuple[float, Tensor]]:
    start: float | None = None
    shown: Any = None
    steps = 0
    for frame in frames:
        if frame.time is None:
            continue
        start = frame.time if start is None else start
        while shown is not None and frame.time - start > steps * period_seconds + 1e-6:
            yield steps * period_seconds, _pixels(shown)
            steps += 1
        shown = frame
    if (
        shown is not None
        and start is not None
        and shown.time - start >= steps * period_seconds - 1e-6
    ):
        yield steps * period_seconds, _pixels(shown)


def _pixels(frame: Any) -> Tensor:
    rgb = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
    matrix = bytes(frame.side_data.get("DISPLAYMATRIX") or b"")
    return upright(rgb[None], *turns_and_mirror(matrix))[0]
