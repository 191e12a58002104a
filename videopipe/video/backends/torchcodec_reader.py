"""Decoding with torchcodec, which needs FFmpeg's shared libraries on the machine."""

import json
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor
from torchcodec.decoders import VideoDecoder

from videopipe.errors import DecodeError, first_line
from videopipe.video.backends.pyav import PyavDecoder
from videopipe.video.backends.pyav_stream import PyavStream
from videopipe.video.decoder import (
    TOLERANCE_SECONDS,
    BackendUnavailableError,
    VideoInfo,
    check_begins,
    check_clip_size,
    check_name,
)
from videopipe.video.picture import apply_mirror, scaled_size, shrink


class TorchcodecDecoder:
    """See `Decoder`. The exact mode of torchcodec reads all packets when a file is opened."""

    def __init__(self, path: Path, short_side: int | None) -> None:
        self.path = path
        check_name(path)
        self._short_side = short_side
        mapping, self._display_matrix = _mapping_and_matrix(path)
        self._in_order = mapping is not None
        try:
            self._decoder = VideoDecoder(
                str(path), num_ffmpeg_threads=1, custom_frame_mappings=mapping
            )
            first = self._decoder.get_frame_at(0)
        except (RuntimeError, ValueError, IndexError) as error:
            raise DecodeError(path, f"torchcodec cannot open it ({first_line(error)})") from None
        self._origin_seconds = float(first.pts_seconds)
        self._height, self._width = first.data.shape[-2:]
        metadata = self._decoder.metadata
        self._end_seconds = float(metadata.end_stream_seconds or 0.0)
        self._frame_rate = float(metadata.average_fps or 25.0)

    @property
    def info(self) -> VideoInfo:
        metadata = self._decoder.metadata
        height, width = scaled_size(self._height, self._width, self._short_side)
        return VideoInfo(
            duration_seconds=max(self._end_seconds - self._origin_seconds, 1 / self._frame_rate),
            frame_rate=self._frame_rate,
            num_frames=len(self._decoder),
            height=height,
            width=width,
            codec=metadata.codec or "",
            rotation_degrees=round(-(metadata.rotation or 0)) % 360,
        )

    @property
    def problems(self) -> Sequence[str]:
        return ()

    def frames_at(self, times_seconds: Sequence[float]) -> Tensor:
        info = self.info
        check_clip_size(self.path, len(times_seconds), info.height, info.width)
        check_begins(self.path, min(times_seconds), info.duration_seconds)
        if self._in_order and max(times_seconds) > info.duration_seconds - 3 / self._frame_rate:
            return self._by_pyav(times_seconds)
        shifted = [
            max(0.0, time) + self._origin_seconds + TOLERANCE_SECONDS for time in times_seconds
        ]
        try:
            frames = self._played_at(shifted)
        except (RuntimeError, ValueError, IndexError) as error:
            raise DecodeError(
                self.path, f"torchcodec cannot decode it ({first_line(error)})"
            ) from None
        return shrink(apply_mirror(frames, self._display_matrix), self._short_side)

    def _played_at(self, seconds: Sequence[float]) -> Tensor:
        """Frames by time. A last frame without a duration is read by its number."""
        last_seconds = self._end_seconds - 0.25 / self._frame_rate
        played = [min(time, last_seconds) for time in seconds]
        frames = self._decoder.get_frames_played_at(played).data
        if max(seconds) > self._end_seconds - 1.5 / self._frame_rate:
            last = self._decoder.get_frame_at(len(self._decoder) - 1)
            for position, time in enumerate(seconds):
                if time >= last.pts_seconds:
                    frames[position] = last.data
        return frames

    def _by_pyav(self, times_seconds: Sequence[float]) -> Tensor:
        """The end of AVI files, whose last frames torchcodec does not return."""
        decoder = PyavDecoder(self.path, self._short_side)
        try:
            return decoder.frames_at(times_seconds)
        finally:
            decoder.close()

    def close(self) -> None:
        del self._decoder


def _mapping_and_matrix(path: Path) -> tuple[bytes | None, bytes]:
    """Frame mappings for files whose timestamps torchcodec gets wrong, and the display matrix.

    AVI has no presentation timestamps, and those that FFmpeg derives are swapped. torchcodec is
    given the decoding timestamps with a single key frame, so that it decodes in order.
    """
    stream = PyavStream(path)
    try:
        if stream.format_name in ("mpeg", "mpegts"):
            raise BackendUnavailableError(
                path, "torchcodec returns wrong frames in MPEG streams; use the backend av"
            )
        if stream.codec.pix_fmt == "pal8":
            raise BackendUnavailableError(
                path, "the palette of its frames is lost in torchcodec; use the backend av"
            )
        if stream.format_name != "avi":
            return None, _display_matrix(path)
        stamps = [packet.dts for packet in stream.packets() if packet.size]
    finally:
        stream.close()
    frames = [
        {"pts": stamp, "duration": 1, "key_frame": int(number == 0)}
        for number, stamp in enumerate(stamps)
    ]
    return json.dumps({"frames": frames}).encode(), b""


def _display_matrix(path: Path) -> bytes:
    decoder = PyavDecoder(path, None)
    decoder.close()
    return decoder.display_matrix
