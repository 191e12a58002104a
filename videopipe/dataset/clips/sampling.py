"""Choosing clips of a video and the times of their frames, in seconds.

All functions are pure and independent of files and frame rates. Random functions take the random
number as an argument, a fraction from 0 to 1.
"""

import math
from dataclasses import dataclass

REMAINDER_SECONDS = 1e-3  # a shorter remainder is a rounding error


@dataclass(frozen=True, order=True)
class Clip:
    """A range of a video, in seconds from its first frame. It may end after the video."""

    start_seconds: float
    end_seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.start_seconds < self.end_seconds:
            raise ValueError(
                f"a clip must start at 0 s or later and end after its start, "
                f"got {self.start_seconds} to {self.end_seconds} s"
            )

    @property
    def duration_seconds(self) -> float:
        return self.end_seconds - self.start_seconds


def frame_times(clip: Clip, num_frames: int) -> list[float]:
    """The times of a clip's frames: the middles of `num_frames` equal parts of the clip.

    Clip(0, 2) with 4 frames -> [0.25, 0.75, 1.25, 1.75]. A time after the end of the video shows
    its last frame.
    """
    if num_frames < 1:
        raise ValueError(f"num_frames must be at least 1, got {num_frames}")
    step_seconds = clip.duration_seconds / num_frames
    return [clip.start_seconds + (index + 0.5) * step_seconds for index in range(num_frames)]


def random_clip(duration_seconds: float, clip_seconds: float, fraction: float) -> Clip:
    """One clip at a random position; in a video shorter than the clip it starts at 0.

    10 s, clips of 2 s: fraction 0 -> 0 to 2 s, 0.5 -> 4 to 6 s, 1 -> 8 to 10 s.
    """
    _check(duration_seconds, clip_seconds)
    start = max(duration_seconds - clip_seconds, 0.0) * fraction
    return Clip(start, start + clip_seconds)


def sliding_windows(
    duration_seconds: float, window_seconds: float, stride_seconds: float
) -> list[Clip]:
    """A window every `stride_seconds`; the last one is moved back to end with the video.

    5 s, windows of 2 s, stride 1 s -> 0–2, 1–3, 2–4, 3–5. With stride 2 s -> 0–2, 2–4, 3–5.
    1.5 s, windows of 2 s -> 0–2.
    """
    _check(duration_seconds, window_seconds)
    if stride_seconds <= 0:
        raise ValueError(f"stride_seconds must be positive, got {stride_seconds}")
    room = duration_seconds - window_seconds
    if room <= REMAINDER_SECONDS:
        return [Clip(0.0, window_seconds)]
    count = int((room + REMAINDER_SECONDS) / stride_seconds) + 1
    starts = [index * stride_seconds for index in range(count)]
    if room - starts[-1] > REMAINDER_SECONDS:
        starts.append(room)
    return [Clip(start, start + window_seconds) for start in starts]


def adjacent_windows(duration_seconds: float, window_seconds: float) -> list[Clip]:
    """Windows one after the other without overlap; the last may end after the video.

    5 s, windows of 2 s -> 0–2, 2–4, 4–6.
    """
    _check(duration_seconds, window_seconds)
    count = math.ceil((duration_seconds - REMAINDER_SECONDS) / window_seconds)
    starts = [index * window_seconds for index in range(max(1, count))]
    return [Clip(start, start + window_seconds) for start in starts]


def dense_clips(duration_seconds: float, clip_seconds: float, num_clips: int) -> list[Clip]:
    """`num_clips` clips spread evenly from the first possible start to the last, overlapping.

    10 s, clips of 2 s, 3 of them -> 0–2, 4–6, 8–10; one of them -> 4–6.
    """
    _check(duration_seconds, clip_seconds)
    if num_clips < 1:
        raise ValueError(f"num_clips must be at least 1, got {num_clips}")
    if num_clips == 1:
        return [random_clip(duration_seconds, clip_seconds, 0.5)]
    step = 1 / (num_clips - 1)
    return [random_clip(duration_seconds, clip_seconds, i * step) for i in range(num_clips)]


def _check(duration_seconds: float, clip_seconds: float) -> None:
    if not duration_seconds > 0 or not clip_seconds > 0:
        raise ValueError(
            f"video and clip must last longer than 0 s, "
            f"got {duration_seconds} s and {clip_seconds} s"
        )
