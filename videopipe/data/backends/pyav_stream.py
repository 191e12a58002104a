"""One video stream through PyAV: frames in the decoder's order, whatever the file does.

FFmpeg keeps decoding after an error, so errors are counted and the stream goes on. Decoding uses
one thread: frame threads can hang when a loop ends early, and each worker has one core.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import av
import av.logging

from videopipe.data.decoder import NoVideoError
from videopipe.errors import DecodeError

av.logging.set_level(av.logging.PANIC)  # problems are reported by us, in words
ERRORS_IN_A_ROW = 200  # of reading, without a packet between: the rest of the file is lost
# HMDB-51 has Latin-1 metadata; nobody needs it, and it must not stop anyone. PyAV 19 takes any.
READING: dict[str, Any] = (
    {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
)
# Codecs whose B-frames are never needed by others and leave no trace when they are not decoded.
SKIPPABLE_CODECS = {"mpeg4", "mpeg1video", "mpeg2video"}


class PyavStream:
    """An open container and its best video stream; `frames()` decodes from the current position."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.errors = 0  # packets that did not decode, over the life of the stream
        self.first_error = ""
        self.cut_off = False  # reading stopped with an error, not at the end of the file
        self.last_packet_dts: int | None = None
        self._untouched = True
        self._open()

    def _open(self) -> None:
        try:
            self._container = av.open(str(self.path), **READING)
        except (av.FFmpegError, OSError, ValueError) as error:
            raise DecodeError(self.path, f"cannot be opened as a video ({_words(error)})") from None
        try:
            self.stream = _choose_stream(self.path, self._container)
            self.codec = self.stream.codec_context
            if self.codec is None:
                raise DecodeError(self.path, "its video codec is unknown")
            self.codec.thread_count = 1
            self.codec.thread_type = "SLICE"
            if not self.stream.time_base:
                raise DecodeError(self.path, "its video stream has no time base")
        except BaseException:
            self._container.close()
            raise
        self.tick_seconds = float(self.stream.time_base)

    def close(self) -> None:
        self._container.close()

    @property
    def format_name(self) -> str:
        return self._container.format.name

    @property
    def container_seconds(self) -> float | None:
        duration = self._container.duration
        return duration / 1e6 if duration and duration > 0 else None

    def rewind(self) -> None:
        """Back to the very first frame. Opening again is the one way that works on every file."""
        if not self._untouched:
            self.close()
            self._open()
            self._untouched = True

    def seek(self, stamp: int) -> bool:
        """Go to a key frame at or before `stamp`; False when this file cannot."""
        self._untouched = False
        try:
            self._container.seek(stamp, stream=self.stream, backward=True)
        except (av.FFmpegError, OSError, ValueError, OverflowError):
            return False
        return True

    def packets(self) -> Iterator[Any]:
        """Packets of the stream, then one empty packet; unreadable stretches are passed over."""
        errors_in_a_row = 0
        self._untouched = False
        while True:
            try:
                for packet in self._container.demux(self.stream):
                    errors_in_a_row = 0
                    yield packet
                return
            except (av.FFmpegError, OSError, ValueError) as error:
                self._count(error)
                errors_in_a_row += 1
                if errors_in_a_row > ERRORS_IN_A_ROW or isinstance(error, av.EOFError):
                    self.cut_off = True
                    return

    def frames(self, is_wanted: Callable[[Any], bool] | None = None) -> Iterator[Any]:
        """Frames in the decoder's order. Those of packets that are not wanted may be left out."""
        may_skip = is_wanted is not None and self.codec.name in SKIPPABLE_CODECS
        self.codec.skip_frame = "DEFAULT"
        skipping = False
        for packet in self.packets():
            if may_skip and is_wanted is not None and skipping == is_wanted(packet):
                skipping = not skipping
                self.codec.skip_frame = "NONREF" if skipping else "DEFAULT"
            if packet.dts is not None:
                self.last_packet_dts = packet.dts
            yield from self._decode(packet)
        if self.cut_off:
            yield from self._decode(None)

    def _decode(self, packet: Any) -> list[Any]:
        try:
            return self.codec.decode(packet)
        except av.EOFError:
            return []
        except MemoryError:
            raise
        except (av.FFmpegError, OSError, ValueError) as error:
            self._count(error)
            return []

    def _count(self, error: Exception) -> None:
        if isinstance(error, av.MemoryError):
            raise MemoryError from error
        self.errors += 1
        self.first_error = self.first_error or _words(error)

    def index(self) -> Sequence[Any]:
        """The container's own index, read with its header; AVI and MP4 list every frame there."""
        return getattr(self.stream, "index_entries", ())

    def key_stamp_before(self, stamp: int) -> int | None:
        """Where the index has the last key frame up to `stamp`; None when it has none."""
        index = self.index()
        if not len(index) or not hasattr(index, "search_timestamp"):
            return None
        position = index.search_timestamp(stamp)
        return None if position < 0 else index[position].timestamp


def _choose_stream(path: Path, container: Any) -> Any:
    """FFmpeg's own choice, as all backends make it; cover pictures are not films."""
    stream = container.streams.best("video")
    if stream is None:
        raise NoVideoError(path, "holds no video stream")
    if stream.disposition & av.stream.Disposition.attached_pic:
        raise NoVideoError(path, "holds no film, only an attached picture")
    return stream


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
