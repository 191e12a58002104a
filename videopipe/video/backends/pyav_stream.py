"""One video stream through PyAV: its packets, and its frames in the order of the decoder.

FFmpeg can continue after an error, so errors are counted and decoding continues. Decoding uses one
thread: frame threads can hang when a loop ends early, and each worker has one core.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import av
import av.logging

from videopipe.errors import DecodeError
from videopipe.video.containers import READING_OPTIONS, looks_like_pattern
from videopipe.video.decoder import NoVideoError

av.logging.set_level(av.logging.PANIC)  # problems are reported as errors with a reason
ERRORS_IN_A_ROW = 200  # read errors without a packet between them: the rest is unreadable
# HMDB-51 has Latin-1 metadata, which PyAV below 19 refuses to decode; the metadata is not used.
READING: dict[str, Any] = (
    {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
)
# Codecs whose B-frames are never references, so that skipping them does not change other frames.
SKIPPABLE_CODECS = {"mpeg4", "mpeg1video", "mpeg2video"}


class PyavStream:
    """An open container and its best video stream; `frames()` decodes from the current position."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.errors = 0  # packets that did not decode, over the life of the stream
        self.first_error = ""
        self.truncated = False  # reading stopped with an error, not at the end of the file
        self.last_packet_dts: int | None = None
        self._untouched = True
        self._file: BinaryIO | None = None
        self._open()

    def _open(self) -> None:
        source: Any = str(self.path)
        try:
            if looks_like_pattern(self.path):
                # FFmpeg never takes an open file for a pattern of numbered images.
                source = self._file = self.path.open("rb")
            self._container = av.open(source, container_options=READING_OPTIONS, **READING)
        except av.ArgumentError:
            self._close_file()
            raise DecodeError(
                self.path,
                "cannot be opened as a video (its header is damaged, or it is of a kind that is "
                "not read, such as a text or a list of other files)",
            ) from None
        except (av.FFmpegError, OSError, ValueError) as error:
            self._close_file()
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
            self.close()
            raise
        self.tick_seconds = float(self.stream.time_base)

    def close(self) -> None:
        self._container.close()
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def format_name(self) -> str:
        return self._container.format.name

    @property
    def container_seconds(self) -> float | None:
        duration = self._container.duration
        return duration / 1e6 if duration and duration > 0 else None

    def rewind(self) -> None:
        """Go back to the first frame, by opening the file again: seeking fails on some files."""
        if not self._untouched:
            self.close()
            self._open()
            self._untouched = True

    def seek(self, stamp: int) -> bool:
        """Go to a key frame at or before `stamp`; False when the file cannot be sought."""
        self._untouched = False
        try:
            self._container.seek(stamp, stream=self.stream, backward=True)
        except (av.FFmpegError, OSError, ValueError, OverflowError):
            return False
        return True

    def packets(self) -> Iterator[Any]:
        """Packets of the stream, then one empty packet; unreadable parts are skipped."""
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
                    self.truncated = True
                    return

    def frames(self, is_wanted: Callable[[Any], bool] | None = None) -> Iterator[Any]:
        """Frames in the order of the decoder, perhaps without those that are not wanted."""
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
        if self.truncated:
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
        """The index of the container, read with its header; AVI and MP4 list every frame in it."""
        return getattr(self.stream, "index_entries", ())

    def key_stamp_before(self, stamp: int) -> int | None:
        """The timestamp of the last key frame up to `stamp` in the index; None if unknown."""
        index = self.index()
        if not len(index) or not hasattr(index, "search_timestamp"):
            return None
        position = index.search_timestamp(stamp)
        return None if position < 0 else index[position].timestamp


def _choose_stream(path: Path, container: Any) -> Any:
    """FFmpeg's choice, which all backends share; an attached cover image is not a video."""
    stream = container.streams.best("video")
    if stream is None:
        raise NoVideoError(path, "holds no video stream")
    if stream.disposition & av.stream.Disposition.attached_pic:
        raise NoVideoError(path, "holds no video, only an attached picture")
    return stream


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
