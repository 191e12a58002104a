"""Decoding with torchcodec, where the machine has FFmpeg libraries for it."""

import json
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor
from torchcodec.decoders import VideoDecoder  # type: ignore[attr-defined]

from videopipe.data.backends.pyav import PyavDecoder
from videopipe.data.backends.pyav_stream import PyavStream
from videopipe.data.decoder import (
    END_TOLERANCE_SECONDS,
    TOLERANCE_SECONDS,
    BackendUnavailableError,
    EndOfVideoError,
    VideoInfo,
    check_clip_size,
)
from videopipe.data.picture import mirror_too, scaled_size, shrink
from videopipe.errors import DecodeError


class TorchcodecDecoder:
    """See `Decoder`. Its exact mode reads all packets when a file is opened."""

    def __init__(self, path: Path, short_side: int | None) -> None:
        self.path = path
        self._short_side = short_side
        mapping, self._display_matrix = _mapping_and_matrix(path)
        self._in_order = mapping is not None
        try:
            self._decoder = VideoDecoder(
                str(path), num_ffmpeg_threads=1, custom_frame_mappings=mapping
            )
            first = self._decoder.get_frame_at(0)
        except (RuntimeError, ValueError, IndexError) as error:
            raise DecodeError(path, f"torchcodec cannot open it ({_words(error)})") from None
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
        if min(times_seconds) > info.duration_seconds + END_TOLERANCE_SECONDS:
            raise EndOfVideoError(
                self.path,
                f"frames after {min(times_seconds):.2f} s were asked for; "
                f"it ends at {info.duration_seconds:.2f} s",
            )
        if self._in_order and max(times_seconds) > info.duration_seconds - 3 / self._frame_rate:
            return self._by_pyav(times_seconds)
        shifted = [
            max(0.0, time) + self._origin_seconds + TOLERANCE_SECONDS for time in times_seconds
        ]
        try:
            frames = self._played_at(shifted)
        except (RuntimeError, ValueError, IndexError) as error:
            raise DecodeError(self.path, f"torchcodec cannot decode it ({_words(error)})") from None
        return shrink(mirror_too(frames, self._display_matrix), self._short_side)

    def _played_at(self, seconds: Sequence[float]) -> Tensor:
        """A last frame without a duration is played at no time, and must be had by number."""
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
        """The end of AVI files, where torchcodec never gives out the last frames."""
        decoder = PyavDecoder(self.path, self._short_side)
        try:
            return decoder.frames_at(times_seconds)
        finally:
            decoder.close()

    def close(self) -> None:
        del self._decoder


def _mapping_and_matrix(path: Path) -> tuple[bytes | None, bytes]:
    """Tell torchcodec about files in which it would lose its way; and how the picture is turned.

    AVI has no presentation times, and those it makes up are swapped: it is given the times of the
    packets, with one key frame only, so that it decodes in order and never jumps.
    """
    stream = PyavStream(path)
    try:
        if stream.format_name in ("mpeg", "mpegts"):
            raise BackendUnavailableError(path, "torchcodec loses its place in MPEG streams")
        if stream.codec.pix_fmt == "pal8":
            raise BackendUnavailableError(path, "torchcodec loses the palette of the pictures")
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


def _words(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
