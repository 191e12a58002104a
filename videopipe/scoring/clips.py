"""Decode the clips of one video and preprocess them for the model; runs in a worker process."""

import math
import stat
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from videopipe.dataset.clips.sampling import Clip, adjacent_windows, dense_clips, sliding_windows
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DecodeError
from videopipe.scoring.frame_reader import FrameReader
from videopipe.scoring.settings import Scoring
from videopipe.system.content_id import content_id
from videopipe.video.cuts import SHORT_SIDE_PIXELS, find_cuts
from videopipe.video.sources.local_copy import local_copy
from videopipe.video.sources.own_objects import OwnCopy
from videopipe.video.video import open_video

T = TypeVar("T")
SAME_SECONDS = 1e-6
NO_FRAMES = torch.empty(0, dtype=torch.uint8)


@dataclass(frozen=True)
class ClipPlan:
    """Which clips of a video are decoded, and how they are preprocessed."""

    num_frames: int
    clip_seconds: float
    preprocessing: Preprocessing
    clips: int | None  # evenly spread; None: as many as cover the video
    stride_seconds: float  # where clips are not counted
    crops: int
    decoder: str
    adjacent: bool = False  # windows never overlap; the last may end after the video
    within_shots: bool = False  # no clip crosses a cut

    @classmethod
    def of(cls, card: ModelCard, scoring: Scoring) -> "ClipPlan":
        """The clips of this model under these settings."""
        num_frames, clip_seconds = scoring.clip_shape(card)
        return cls(
            num_frames=num_frames,
            clip_seconds=clip_seconds,
            preprocessing=card.preprocessing,
            clips=scoring.clips,
            stride_seconds=scoring.stride_seconds or clip_seconds,
            crops=scoring.crops,
            decoder=scoring.decoder,
            within_shots=scoring.within_shots,
        )

    def num_clips(self, source: VideoRange, duration_seconds: float) -> int:
        """Estimate the number of clips of `windows` without making them."""
        end = duration_seconds if source.end_seconds is None else source.end_seconds
        seconds = min(end, duration_seconds) - (source.start_seconds or 0.0)
        return self.clips or max(1, math.ceil(seconds / self.stride_seconds))

    def bounds(self, source: VideoRange, duration_seconds: float) -> tuple[float, float]:
        """Where the clips begin and end: the video, or the range of it that is asked for."""
        start = source.start_seconds or 0.0
        end = duration_seconds if source.end_seconds is None else source.end_seconds
        end = min(end, duration_seconds)
        if end <= start:
            raise DecodeError(
                source.path, f"the range begins at {start:g} s, the video ends at {end:g} s"
            )
        return start, end

    def windows(
        self, source: VideoRange, duration_seconds: float, cuts: Sequence[float] = ()
    ) -> list[Clip]:
        """The clips of a video, or of a range of it, in order of time; those of each shot."""
        start, end = self.bounds(source, duration_seconds)
        return [
            Clip(begin + clip.start_seconds, begin + clip.end_seconds)
            for begin, stop in pairwise([start, *cuts, end])
            for clip in self._of_a_shot(stop - begin)
        ]

    def _of_a_shot(self, seconds: float) -> list[Clip]:
        if self.adjacent:
            return adjacent_windows(seconds, self.clip_seconds)
        if self.clips is None:
            return sliding_windows(seconds, self.clip_seconds, self.stride_seconds)
        return dense_clips(seconds, self.clip_seconds, self.clips)


@dataclass(frozen=True)
class ClipTask:
    """One video for a decoding process."""

    index: int
    source: VideoRange
    plan: ClipPlan
    windows_done: int = 0  # computed by an earlier run
    max_clips: int | None = None
    max_seconds: float | None = None  # of decoding; waiting for the model does not count
    copy: OwnCopy | None = None  # of an object that only the main process has


@dataclass(frozen=True)
class VideoFacts:
    """What is known of a video apart from its frames."""

    content_id: str | None = None
    duration_seconds: float | None = None
    problems: str | None = None  # defects of a file that decodes
    too_long: str | None = None  # why decoding stopped before the end


@dataclass(frozen=True)
class DecodedClip:
    """A crop of a clip, preprocessed except for normalisation."""

    start_seconds: float
    end_seconds: float  # of the video or its range, where the clip is longer
    completes_window: bool  # the last crop of its clip
    frames: Tensor  # uint8 (channels, time, height, width)
    shot: int = 0  # number of the cuts before it

    def without_frames(self) -> "DecodedClip":
        """The same without the frames, once they are passed to the model."""
        return replace(self, frames=NO_FRAMES)


def decode_clips(task: ClipTask) -> Iterator[VideoFacts | DecodedClip]:
    """Facts about the video, then its clips in order; each frame is decoded once."""
    source, copy = task.source.path, task.copy
    with local_copy(source) if copy is None else nullcontext(copy.opened(source)) as path:
        yield from _decode_file(task, path)


def _decode_file(task: ClipTask, path: Path) -> Iterator[VideoFacts | DecodedClip]:
    plan = task.plan
    content = _identify(path)
    yield VideoFacts(content)
    if path.stat().st_size == 0:
        raise DecodeError(path, "the file is empty")
    with open_video(path, plan.decoder, frame_rate=task.source.frame_rate) as video:
        duration_seconds = video.duration_seconds
        yield VideoFacts(content, duration_seconds)
        num_clips = plan.num_clips(task.source, duration_seconds)
        if task.max_clips is not None and num_clips > task.max_clips:
            reason = (
                f"{duration_seconds:g} s are {num_clips} clips; at most {task.max_clips} are "
                "computed (max_clips_per_video)"
            )
            yield VideoFacts(content, duration_seconds, too_long=reason)
            return
        cuts = _cuts(task, path, duration_seconds) if plan.within_shots else []
        if cuts is None:
            reason = f"finding the cuts took more than {task.max_seconds:g} s"
            yield VideoFacts(
                content, duration_seconds, too_long=f"{reason} (max_seconds_per_video)"
            )
            return
        end = task.source.end_seconds
        ends = cuts if end is None else [*cuts, end]
        reader = FrameReader(video, plan.preprocessing, plan.crops, ends)
        windows = plan.windows(task.source, duration_seconds, cuts)[task.windows_done :]
        decoded = reader.read(windows, plan.num_frames)  # crops: (crops, 3, time, size, size)
        for seconds, (window, crops) in timed(decoded):
            if task.max_seconds is not None and seconds > task.max_seconds:
                reason = (
                    f"decoding took more than {task.max_seconds:g} s up to "
                    f"{window.end_seconds:g} s of the video (max_seconds_per_video)"
                )
                yield VideoFacts(content, duration_seconds, too_long=reason)
                return
            later = bisect_right(ends, window.start_seconds + SAME_SECONDS)
            limits = [window.end_seconds, video.duration_seconds, *ends[later : later + 1]]
            end_seconds = max(min(limits), window.start_seconds)
            shot = min(later, len(cuts))
            for number, frames in enumerate(crops):
                last = number == plan.crops - 1
                yield DecodedClip(window.start_seconds, end_seconds, last, frames, shot)
        yield VideoFacts(content, video.duration_seconds, "; ".join(video.problems) or None)


def _cuts(task: ClipTask, path: Path, duration_seconds: float) -> list[float] | None:
    """From a second pass over small frames; None when it takes too long."""
    plan, rate = task.plan, task.source.frame_rate
    bounds = plan.bounds(task.source, duration_seconds)
    with open_video(path, plan.decoder, SHORT_SIDE_PIXELS, frame_rate=rate) as video:
        return find_cuts(video, *bounds, max_seconds=task.max_seconds)


def timed(items: Iterable[T]) -> Iterator[tuple[float, T]]:
    """Each item with the seconds that it and the ones before it took to make."""
    seconds, iterator = 0.0, iter(items)
    while True:
        before = time.monotonic()
        try:
            item = next(iterator)
        except StopIteration:
            return
        seconds += time.monotonic() - before
        yield seconds, item


def _identify(path: Path) -> str:
    """The content id of the file or folder of frames. A pipe is refused: opening it would block."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise DecodeError(path, "is not a file (a pipe or a device)")
        return content_id(path)
    except FileNotFoundError:
        raise DecodeError(path, "no such file") from None
    except (OSError, ValueError) as error:
        raise DecodeError(path, f"cannot be read ({error})") from None
