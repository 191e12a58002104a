"""How fast each decoder reads clips of given files, and whether they agree on the frames.

Every clip is decoded in a process that can be killed, by all decoders in turn, so that other load
on the machine slows all of them alike. A clip counts with the best of its repeats.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np

from videopipe.dataset.clips.sampling import Clip, frame_times, random_clip
from videopipe.errors import DataError, DecodeError
from videopipe.system.pool import Event, Failed, WorkerPool
from videopipe.video.video import BACKENDS, open_video

REFERENCE = "av"
GREY_TOLERANCE = 3.0  # mean grey levels between two decoders' colour conversions
SMALL_PIXELS = (12, 16)  # frames are compared at this size


@dataclass(frozen=True)
class ClipSize:
    """The clips that are decoded."""

    num_frames: int = 16
    clip_seconds: float = 2.0
    rounds: int = 3  # clips per file
    repeats: int = 3  # of each clip
    timeout_seconds: float = 30.0


@dataclass(frozen=True)
class DecodeTask:
    """A clip of a file for one decoder."""

    backend: str
    path: str
    start_seconds: float
    size: ClipSize
    warm_up: bool = False  # imports and disk


@dataclass
class DecoderSpeed:
    """The times, differing frames and failures of one decoder."""

    backend: str
    clip_seconds: dict[tuple[str, float], float] = field(default_factory=dict)  # by (path, start)
    differing_frames: int = 0  # from those of the reference
    failures: list[str] = field(default_factory=list)

    @property
    def works(self) -> bool:
        """Whether it read every clip and agrees with the reference."""
        return bool(self.clip_seconds) and not self.failures and not self.differing_frames

    def milliseconds(self, clips: Sequence[tuple[str, float]]) -> float:
        """The mean over these clips."""
        return 1e3 * fmean(self.clip_seconds[clip] for clip in clips)


def measure_decoders(files: Sequence[Path], size: ClipSize) -> list[DecoderSpeed]:
    """One result per backend; those that do not work here have failures only."""
    places = _places(files, size)
    if not places:
        raise DataError("none of the files can be read as a video; see `videopipe check`")
    tasks = [
        DecodeTask(backend, path, start, size, warm_up=number == 0)
        for number, (path, start) in enumerate([places[0], *places])
        for backend in BACKENDS
    ]
    found = {backend: DecoderSpeed(backend) for backend in BACKENDS}
    pictures: dict[tuple[str, float], np.ndarray] = {}  # of the reference, which comes first
    with WorkerPool(_decode, workers=1, timeout_seconds=size.timeout_seconds) as pool:
        for event in pool.run(tasks):
            task = event.task
            speed, place = found[task.backend], (task.path, task.start_seconds)
            if isinstance(event, Failed):
                speed.failures.append(f"{Path(task.path).name}: {event.reason}")
            elif isinstance(event, Event) and not task.warm_up:
                speed.clip_seconds[place], picture = event.payload
                picture = np.asarray(picture)  # (time, channels, height, width)
                if task.backend == REFERENCE:
                    pictures[place] = picture
                elif place in pictures:
                    distance = np.abs(picture - pictures[place]).mean(axis=(1, 2, 3))  # (time,)
                    speed.differing_frames += int((distance > GREY_TOLERANCE).sum())
    return list(found.values())


def fastest(speeds: Sequence[DecoderSpeed]) -> DecoderSpeed | None:
    """The fastest of those that read every clip; None when there is none."""
    working = [speed for speed in speeds if speed.works]
    clips = shared_clips(speeds)
    return min(working, key=lambda speed: speed.milliseconds(clips), default=None)


def shared_clips(speeds: Sequence[DecoderSpeed]) -> list[tuple[str, float]]:
    """The clips that every decoder with results could read; times are compared on these."""
    read = [set(speed.clip_seconds) for speed in speeds if speed.clip_seconds]
    return sorted(set.intersection(*read)) if read else []


def _places(files: Sequence[Path], size: ClipSize) -> list[tuple[str, float]]:
    generator = random.Random(0)
    places = []
    for file in files:
        try:
            with open_video(file) as video:
                duration = video.duration_seconds
        except DecodeError:
            continue
        for _ in range(size.rounds):
            clip = random_clip(duration, size.clip_seconds, generator.random())
            places.append((str(file), clip.start_seconds))
    return places


def _decode(task: DecodeTask) -> Iterator[tuple[float, object]]:
    """The best time of the clip, and its frames as small pictures."""
    import torch
    from torch.nn.functional import interpolate

    torch.set_num_threads(1)
    clip = Clip(task.start_seconds, task.start_seconds + task.size.clip_seconds)
    times = frame_times(clip, task.size.num_frames)
    best = float("inf")
    for _ in range(1 if task.warm_up else task.size.repeats):
        begun = time.perf_counter()
        with open_video(Path(task.path), task.backend) as video:
            frames = video.frames_at(times)  # (time, channels, height, width)
        best = min(best, time.perf_counter() - begun)
    yield best, interpolate(frames.float(), SMALL_PIXELS, mode="area").numpy()
