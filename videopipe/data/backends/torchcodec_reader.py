"""Decoding with torchcodec, where the machine has FFmpeg libraries for it."""

import json
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor
from torchcodec.decoders import VideoDecoder  # type: ignore[attr-defined]

from videopipe.data.backends.pyav_stream import PyavStream
from videopipe.data.decoder import (
    END_TOLERANCE_SECONDS,
    TOLERANCE_SECONDS,
    BackendUnavailableError,
    EndOfVideoError,
    VideoInfo,
    check_clip_size,
)
from videopipe.data.picture import scaled_size, shrink
from videopipe.errors import DecodeError


class TorchcodecDecoder:
    """See `Decoder`. Its exact mode reads all packets when a file is opened."""

    def __init__(self, path: Path, short_side: int | None) -> None:
        self.path = path
        self._short_side = short_side
        mapping = _mapping_for(path)
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
        last_seconds = self._end_seconds - 0.25 / self._frame_rate
        shifted = [
            max(0.0, time) + self._origin_seconds + TOLERANCE_SECONDS for time in times_seconds
        ]
        try:
            batch = self._decoder.get_frames_played_at([min(t, last_seconds) for t in shifted])
        except (RuntimeError, ValueError, IndexError) as error:
            raise DecodeError(self.path, f"torchcodec cannot decode it ({_words(error)})") from None
        return shrink(batch.data, self._short_side)

    def close(self) -> None:
        del self._decoder


def _mapping_for(path: Path) -> bytes | None:
    """Tell torchcodec about files in which it would lose its way.

    AVI has no presentation times, and those it makes up are swapped: it is given the times of the
    packets, with one key frame only, so that it decodes in order and never jumps.
    """
    stream = PyavStream(path)
    try:
        if stream.format_name in ("mpeg", "mpegts"):
            raise BackendUnavailableError(path, "torchcodec loses its place in MPEG streams")
        if stream.format_name != "avi":
            return None
        stamps = [packet.dts for packet in stream.packets() if packet.size]
    finally:
        stream.close()
    frames = [
        {"pts": stamp, "duration": 1, "key_frame": int(number == 0)}
        for number, stamp in enumerate(stamps)
    ]
    return json.dumps({"frames": frames}).encode()


def _words(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
