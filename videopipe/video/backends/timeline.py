"""When each frame of a video begins, for backends that address frames by number."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from videopipe.errors import DecodeError
from videopipe.video.backends.pyav import PyavDecoder
from videopipe.video.backends.pyav_stream import PyavStream
from videopipe.video.decoder import VideoInfo


@dataclass(frozen=True)
class Timeline:
    """The times of all frames in display order, and whether seeking by number is reliable.

    It is reliable only in MP4 files without edit lists whose groups of pictures are closed.
    """

    times_seconds: tuple[float, ...]
    info: VideoInfo
    problems: tuple[str, ...]
    may_seek: bool
    format_name: str
    display_matrix: bytes


class Stamp(NamedTuple):
    """Timestamp and flags of a packet."""

    pts: int | None
    is_discard: bool
    is_key: bool


def read_timeline(path: Path) -> Timeline:
    """Read all packets of a video; only the first frame is decoded."""
    decoder = PyavDecoder(path, None)
    try:
        info, problems, clock = decoder.info, tuple(decoder.problems), decoder.cursor.clock
        display_matrix = decoder.display_matrix
    finally:
        decoder.close()
    stream = PyavStream(path)
    try:
        packets = [
            Stamp(packet.pts, packet.is_discard, packet.is_keyframe)
            for packet in stream.packets()
            if packet.size
        ]
        tick_seconds, format_name = stream.tick_seconds, stream.format_name
    finally:
        stream.close()
    shown = [packet for packet in packets if not packet.is_discard]
    if not shown:
        raise DecodeError(path, "every frame is marked as not to be shown")
    stamps = sorted(packet.pts for packet in shown if packet.pts is not None)
    may_seek = format_name.startswith("mov,mp4") and len(shown) == len(packets)
    if clock != "pts" or len(set(stamps)) < len(shown):
        times = [number / info.frame_rate for number in range(len(shown))]
    else:
        times = [(stamp - stamps[0]) * tick_seconds for stamp in stamps]
    return Timeline(
        tuple(times),
        info,
        problems,
        may_seek and not _has_open_groups(packets),
        format_name,
        display_matrix,
    )


def _has_open_groups(packets: Sequence[Stamp]) -> bool:
    """Whether a frame is stored after a key frame and shown before it."""
    key_stamp: int | None = None
    for packet in packets:
        if packet.is_key:
            key_stamp = packet.pts
        elif None not in (packet.pts, key_stamp) and packet.pts < key_stamp:  # type: ignore[operator]
            return True
    return False
