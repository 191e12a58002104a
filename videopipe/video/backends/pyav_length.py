"""The length of a video: that of its header, corrected by checks without decoding."""

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

from videopipe.system.pool_worker import heartbeat
from videopipe.video.backends.pyav_stream import PyavStream

SANE_FRAME_RATES = (0.01, 400.0)  # others are the tick rate of the container
FALLBACK_FRAME_RATE = 25.0  # of a single frame without any times
FULLY_INDEXED = ("avi", "mov,mp4,m4a,3gp,3g2,mj2")  # formats that list every frame in the header
COUNT_TOLERANCE = 3  # frames by which real AVI headers and their index differ
# MPEG program streams have a time for every few frames only, so FFmpeg's guess ends too early.
GUESSED_LENGTH = ("mpeg",)
# Recordings are often concatenated byte by byte, each with its own timestamps. Only reading all
# packets shows this, which is done for short files.
READ_WHOLE_BYTES = 32 * 2**20
LARGEST_REORDERING = 17  # frames by which H.264 and HEVC reorder; more is another recording


@dataclass(frozen=True)
class Length:
    """Duration from the first frame to the end of the last, and the problems found."""

    duration_seconds: float
    frame_rate: float
    num_frames: int
    counted: bool = False  # the timestamps are missing or start again, so frames are counted
    problems: tuple[str, ...] = ()


def measure(stream: PyavStream, origin_stamp: int) -> Length:
    """Read the header; where it is empty or known to be wrong, read the packets."""
    rate = _sane_rate(stream)
    promised_seconds = (stream.stream.duration or 0) * stream.tick_seconds
    if stream.format_name == "mpegts" and _size_bytes(stream.path) <= READ_WHOLE_BYTES:
        return _measure_by_packets(stream, origin_stamp, rate, from_start=True)
    if promised_seconds > 0 and rate is not None and stream.format_name not in GUESSED_LENGTH:
        if stream.format_name in FULLY_INDEXED:
            if _index_is_whole(stream):
                return _measure_by_index(stream, promised_seconds, rate)
            return _check_count(
                stream, _measure_by_packets(stream, origin_stamp, rate, from_start=True)
            )
        return Length(
            promised_seconds, rate, stream.stream.frames or round(promised_seconds * rate)
        )
    return _measure_by_packets(stream, origin_stamp, rate)


def _sane_rate(stream: PyavStream) -> float | None:
    """The mean rate; None where Matroska and FLV report their 1000 ticks per second instead."""
    rate = stream.stream.average_rate
    if not rate or not SANE_FRAME_RATES[0] <= rate <= SANE_FRAME_RATES[1]:
        return None
    return float(rate)


def _measure_by_index(stream: PyavStream, promised_seconds: float, rate: float) -> Length:
    """Find frames that the index places after the end of the file: the file is truncated."""
    entries = stream.index()
    num_frames = len(entries) or stream.stream.frames or round(promised_seconds * rate)
    size_bytes = _size_bytes(stream.path)
    if not len(entries) or size_bytes == 0 or entries[-1].pos + entries[-1].size <= size_bytes:
        return Length(promised_seconds, rate, num_frames)
    missing = [entry for entry in entries if entry.pos + entry.size > size_bytes]
    first_stamp = min(entry.timestamp for entry in entries)
    end_stamp = min(entry.timestamp for entry in missing)
    remaining_seconds = max(0.0, (end_stamp - first_stamp) * stream.tick_seconds)
    problem = f"cut off: the last {len(missing)} of {len(entries)} frames are missing"
    count = len(entries) - len(missing)
    return Length(remaining_seconds, rate, count, problems=(problem,))


def _index_is_whole(stream: PyavStream) -> bool:
    """AVI has its index at the end, where truncation removes it; its frame count is unreliable."""
    if stream.format_name != "avi":
        return True
    return abs(len(stream.index()) - stream.stream.frames) <= COUNT_TOLERANCE


def _check_count(stream: PyavStream, found: Length) -> Length:
    promised = stream.stream.frames
    if promised <= found.num_frames + COUNT_TOLERANCE:
        return found
    problem = f"the header promises {promised} frames, the file holds {found.num_frames}"
    return replace(found, problems=(problem,))


def _measure_by_packets(
    stream: PyavStream, origin_stamp: int, rate: float | None, *, from_start: bool = False
) -> Length:
    """Read the last packets if the rate is known and seeking works, else all packets."""
    end_seconds = stream.container_seconds
    if rate is not None and end_seconds is not None and not from_start:
        end_stamp = origin_stamp + int(end_seconds / stream.tick_seconds)
        known = [stamp for stamp in _stamps(stream, end_stamp) if stamp is not None]
        if known:  # empty when the seek went beyond the last packet
            duration_seconds = (max(known) - origin_stamp) * stream.tick_seconds + 1 / rate
            return Length(duration_seconds, rate, round(duration_seconds * rate))
    stamps = _stamps(stream, None)
    known = [stamp for stamp in stamps if stamp is not None] or [origin_stamp]
    last_seconds = (max(known) - origin_stamp) * stream.tick_seconds
    if rate is None:
        rate = (len(known) - 1) / last_seconds if last_seconds > 0 else FALLBACK_FRAME_RATE
    duration_seconds = last_seconds + 1 / rate
    counted = _are_counted(stamps, rate * stream.tick_seconds)
    if counted:
        duration_seconds = len(stamps) / rate
    return Length(duration_seconds, rate, len(stamps), counted)


def _stamps(stream: PyavStream, from_stamp: int | None) -> list[int | None]:
    """The timestamps of all packets, or of those from the key frame before `from_stamp` on."""
    reader = PyavStream(stream.path)
    try:
        if from_stamp is not None and not reader.seek(from_stamp):
            return []
        stamps = []
        for packet in reader.packets():
            if packet.size:
                stamps.append(packet.pts if packet.pts is not None else packet.dts)
            heartbeat()
        return stamps
    finally:
        reader.close()


def _are_counted(stamps: list[int | None], frames_per_tick: float) -> bool:
    """Whether frames must be counted: no timestamps, or concatenated recordings."""
    known = [stamp for stamp in stamps if stamp is not None]
    if 2 * len(known) < len(stamps):
        return True
    return any(
        (before - after) * frames_per_tick > LARGEST_REORDERING
        for before, after in itertools.pairwise(known)
    )


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
