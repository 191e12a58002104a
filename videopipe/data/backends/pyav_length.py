"""How long a video is: what the header says, mended by what can be checked without decoding."""

from dataclasses import dataclass
from pathlib import Path

from videopipe.data.backends.pyav_stream import PyavStream

SANE_FRAME_RATES = (0.01, 400.0)  # beyond: a container's tick rate posing as a frame rate
FALLBACK_FRAME_RATE = 25.0  # of a single frame without any times
FULLY_INDEXED = ("avi", "mov,mp4,m4a,3gp,3g2,mj2")  # formats that list every frame in the header


@dataclass(frozen=True)
class Length:
    """Duration from the first frame to the end of the last, and how it was found wanting."""

    duration_seconds: float
    frame_rate: float
    num_frames: int
    problems: tuple[str, ...] = ()


def measure(stream: PyavStream, origin_stamp: int) -> Length:
    """Read the header; where it says nothing or cannot be trusted, read packets (not pictures)."""
    rate = _sane_rate(stream)
    promised_seconds = (stream.stream.duration or 0) * stream.tick_seconds
    if stream.format_name in FULLY_INDEXED and promised_seconds > 0 and rate is not None:
        return _measure_by_index(stream, promised_seconds, rate)
    if promised_seconds > 0 and rate is not None:
        return Length(
            promised_seconds, rate, stream.stream.frames or round(promised_seconds * rate)
        )
    return _measure_by_packets(stream, origin_stamp, rate)


def _sane_rate(stream: PyavStream) -> float | None:
    """The mean rate. Matroska and FLV files may report their clock of 1000 ticks a second."""
    rate = stream.stream.average_rate
    if not rate or not SANE_FRAME_RATES[0] <= rate <= SANE_FRAME_RATES[1]:
        return None
    return float(rate)


def _measure_by_index(stream: PyavStream, promised_seconds: float, rate: float) -> Length:
    """Find frames that the index places beyond the end of the file: it has been cut."""
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
    return Length(remaining_seconds, rate, len(entries) - len(missing), (problem,))


def _measure_by_packets(stream: PyavStream, origin_stamp: int, rate: float | None) -> Length:
    """Read packets: the last ones when the rate is known and the file can be sought, else all."""
    reader = PyavStream(stream.path)
    try:
        end_seconds = stream.container_seconds
        sought = False
        if rate is not None and end_seconds is not None:
            sought = reader.seek(origin_stamp + int(end_seconds / stream.tick_seconds))
        stamps = [
            packet.pts if packet.pts is not None else packet.dts
            for packet in reader.packets()
            if packet.size
        ]
    finally:
        reader.close()
    known = [stamp for stamp in stamps if stamp is not None] or [origin_stamp]
    last_seconds = (max(known) - origin_stamp) * stream.tick_seconds
    if rate is None:
        rate = (len(known) - 1) / last_seconds if last_seconds > 0 else FALLBACK_FRAME_RATE
    duration_seconds = last_seconds + 1 / rate
    count = len(stamps)
    num_frames = round(duration_seconds * rate) if sought else count
    return Length(duration_seconds, rate, num_frames)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
