"""When each frame of a video begins, for backends that count frames instead of timing them."""

from dataclasses import dataclass
from pathlib import Path

from videopipe.data.backends.pyav import PyavDecoder
from videopipe.data.backends.pyav_stream import PyavStream
from videopipe.data.decoder import VideoInfo


@dataclass(frozen=True)
class Timeline:
    """Frames in film order, and whether a reader may be trusted to jump among them.

    Readers that count lose count when they jump, except in MP4 files without edit lists.
    """

    times_seconds: tuple[float, ...]
    info: VideoInfo
    problems: tuple[str, ...]
    may_jump: bool
    format_name: str


def read_timeline(path: Path) -> Timeline:
    """Read the packets of a video, not its pictures."""
    decoder = PyavDecoder(path, None)
    try:
        info, problems, clock = decoder.info, tuple(decoder.problems), decoder.reel.clock
    finally:
        decoder.close()
    stream = PyavStream(path)
    try:
        packets = [packet for packet in stream.packets() if packet.size]
        shown = [packet for packet in packets if not packet.is_discard]
        stamps = sorted(packet.pts for packet in shown if packet.pts is not None)
        tick_seconds = stream.tick_seconds
        format_name = stream.format_name
        may_jump = format_name.startswith("mov,mp4") and len(shown) == len(packets)
    finally:
        stream.close()
    if clock != "pts" or len(set(stamps)) < len(shown):
        times = [number / info.frame_rate for number in range(len(shown))]
    else:
        times = [(stamp - stamps[0]) * tick_seconds for stamp in stamps]
    return Timeline(tuple(times), info, problems, may_jump, format_name)
