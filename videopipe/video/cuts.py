"""Cuts between the shots of a video, found by the change of its colours from frame to frame.

The distance of two frames is that of their colour histograms: 0 for the same colours, 1 for none in
common. A cut is a distance that is large, and much larger than all others nearby: motion changes
many frames a little, and a flash changes two.
"""

import time
from collections.abc import Iterator

import torch
from torch import Tensor

from videopipe.video.video import EndOfVideoError, Video

SHORT_SIDE_PIXELS = 48  # frames are scaled down while decoding
LEVELS = 8  # of each colour
SMALLEST_DISTANCE = 0.3
TIMES_THE_OTHERS = 2.0
OTHERS = 6  # frames on either side
FRAMES_AT_A_TIME = 64


def find_cuts(
    video: Video,
    start_seconds: float,
    end_seconds: float,
    max_seconds: float | None = None,
) -> list[float] | None:
    """The times at which a new shot begins, between start and end; every frame is decoded.

    None when that takes longer than `max_seconds`.
    """
    begun = time.monotonic()
    count = max(1, round((end_seconds - start_seconds) * video.frame_rate))
    distances = [torch.zeros(0)]
    for found in _distances(video, start_seconds, count):
        distances.append(found)
        if max_seconds is not None and time.monotonic() - begun > max_seconds:
            return None
    places = cut_places(torch.cat(distances))
    return [start_seconds + place / video.frame_rate for place in places]


def cut_places(distances: Tensor) -> list[int]:
    """Frames that begin a shot; `distances[i]` is that of frame i to the one before it."""
    if not len(distances):
        return []
    around = torch.nn.functional.pad(distances, (OTHERS, OTHERS)).unfold(0, 2 * OTHERS + 1, 1)
    others = around.clone()  # (frames, 2 × OTHERS + 1)
    others[:, OTHERS] = 0
    much_larger = distances >= TIMES_THE_OTHERS * others.amax(1)
    return torch.nonzero(much_larger & (distances >= SMALLEST_DISTANCE)).flatten().tolist()


def _distances(video: Video, start_seconds: float, count: int) -> Iterator[Tensor]:
    last: Tensor | None = None
    for first in range(0, count, FRAMES_AT_A_TIME):
        numbers = range(first, min(first + FRAMES_AT_A_TIME, count))
        times = [start_seconds + (number + 0.5) / video.frame_rate for number in numbers]
        try:
            frames = video.frames_at(times)
        except EndOfVideoError:  # it ends before the duration in its header
            return
        histograms = torch.stack([_histogram(frame) for frame in frames])
        before = histograms[:1] if last is None else last[None]
        yield (histograms - torch.cat([before, histograms[:-1]])).abs().sum(1) / 2
        last = histograms[-1]


def _histogram(frame: Tensor) -> Tensor:
    """(3, height, width) -> the share of pixels of each of LEVELS³ colours."""
    red, green, blue = (frame.long() * LEVELS) >> 8
    colours = ((red * LEVELS + green) * LEVELS + blue).flatten()
    return torch.bincount(colours, minlength=LEVELS**3).float() / len(colours)
