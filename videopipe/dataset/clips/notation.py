"""The notation `clip_len × interval × num_clips` of mmaction and SlowFast, and clips in seconds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from videopipe.dataset.manifest import VideoRecord


@dataclass(frozen=True)
class FrameNotation:
    """32x2x1: 32 frames, every second one, in one clip."""

    clip_len: int
    frame_interval: int
    num_clips: int = 1

    def __post_init__(self) -> None:
        if min(self.clip_len, self.frame_interval, self.num_clips) < 1:
            raise ValueError(f"every number of {self} must be at least 1")

    def __str__(self) -> str:
        return f"{self.clip_len}x{self.frame_interval}x{self.num_clips}"

    def clip_seconds(self, frame_rate: float) -> float:
        """How long a clip lasts: 32x2x1 at 32 frames per second -> 2 s."""
        return self.clip_len * self.frame_interval / frame_rate


def parse_notation(text: str) -> FrameNotation:
    """Read "32x2x1", "32×2×1", "8 x 8" (one clip)."""
    match = re.fullmatch(r"\s*(\d+)\s*[x×*]\s*(\d+)(?:\s*[x×*]\s*(\d+))?\s*", text, re.IGNORECASE)
    if match is None:
        raise ValueError(
            f"{text!r} is not a sampling notation; expected clip_len x interval x num_clips, "
            f"for example 32x2x1"
        )
    return FrameNotation(*(int(number) for number in match.groups(default="1")))


def typical_rate(records: Iterable[VideoRecord]) -> float | None:
    """The median frame rate of inspected videos; None if there are none."""
    rates = [record.frame_rate for record in records if record.frame_rate]
    return median(rates) if rates else None


def describe_sampling(
    num_frames: int, clip_seconds: float, frame_rate: float | None, num_clips: int = 1
) -> str:
    """Both notations: "30 frames over 2 s (30x2x1 at 30 fps)"."""
    if frame_rate is None:
        return f"{num_frames} frames over {clip_seconds:g} s"
    interval = clip_seconds * frame_rate / num_frames
    steps = f"{interval:.0f}" if abs(interval - round(interval)) < 0.005 else f"{interval:.2f}"
    return (
        f"{num_frames} frames over {clip_seconds:.4g} s "
        f"({num_frames}x{steps}x{num_clips} at {frame_rate:.4g} fps)"
    )
