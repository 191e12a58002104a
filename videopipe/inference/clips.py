"""What a decoding process does with one video: its clips, as the model wants to see them."""

import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from pretrained_2d.card import ModelCard, Preprocessing
from videopipe.data.content import content_id
from videopipe.data.sampling import Clip, dense_clips, sliding_windows
from videopipe.data.video import open_video
from videopipe.errors import DecodeError
from videopipe.inference.frames import FrameReader
from videopipe.inference.manifests import Source
from videopipe.inference.settings import Scoring

MOST_CLIPS = 5_000_000  # more is a damaged header, not a film
NO_FRAMES = torch.empty(0, dtype=torch.uint8)


@dataclass(frozen=True)
class ClipPlan:
    """Which clips of a video are looked at, and how they are prepared."""

    num_frames: int
    clip_seconds: float
    preprocessing: Preprocessing
    clips: int | None  # evenly spread; None: as many as cover the video
    stride_seconds: float  # where clips are not counted
    crops: int
    decoder: str

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
        )

    def windows(self, source: Source, duration_seconds: float) -> list[Clip]:
        """The clips of a video, or of the range of it that is asked for, in order of time."""
        start = source.start_seconds or 0.0
        end = duration_seconds if source.end_seconds is None else source.end_seconds
        end = min(end, duration_seconds)
        if end <= start:
            raise DecodeError(
                source.path, f"the range begins at {start:g} s, the video ends at {end:g} s"
            )
        if (end - start) / self.stride_seconds > MOST_CLIPS:
            raise DecodeError(source.path, f"a duration of {end - start:g} s cannot be true")
        if self.clips is None:
            found = sliding_windows(end - start, self.clip_seconds, self.stride_seconds)
        else:
            found = dense_clips(end - start, self.clip_seconds, self.clips)
        return [Clip(start + clip.start_seconds, start + clip.end_seconds) for clip in found]


@dataclass(frozen=True)
class ClipTask:
    """One video for a decoding process."""

    index: int
    source: Source
    plan: ClipPlan
    windows_done: int = 0  # not wanted again


@dataclass(frozen=True)
class VideoFacts:
    """What is known of a video apart from its pictures."""

    content_id: str | None = None
    duration_seconds: float | None = None
    problems: str | None = None  # what was wrong with it, although it decodes


@dataclass(frozen=True)
class DecodedClip:
    """A crop of a clip, ready for the model but for normalisation."""

    start_seconds: float
    end_seconds: float  # of the video or its range, where the clip is longer
    completes_window: bool  # the last crop of its clip
    frames: Tensor  # uint8 (channels, time, height, width)

    def without_frames(self) -> "DecodedClip":
        """The same, when the model has the frames."""
        return replace(self, frames=NO_FRAMES)


def decode_clips(task: ClipTask) -> Iterator[VideoFacts | DecodedClip]:
    """What is known of the video, then its clips in order; each frame is decoded once."""
    path, plan = Path(task.source.path), task.plan
    content = _identify(path)
    yield VideoFacts(content)
    if path.stat().st_size == 0:
        raise DecodeError(path, "the file is empty")
    with open_video(path, plan.decoder) as video:
        duration_seconds = video.duration_seconds
        yield VideoFacts(content, duration_seconds)
        end = task.source.end_seconds
        reader = FrameReader(video, plan.preprocessing, plan.crops, end)
        windows = plan.windows(task.source, duration_seconds)[task.windows_done :]
        for window, crops in reader.read(windows, plan.num_frames):  # (crops, 3, time, size, size)
            ends = [window.end_seconds, video.duration_seconds, *([] if end is None else [end])]
            end_seconds = max(min(ends), window.start_seconds)
            for number, frames in enumerate(crops):
                last = number == plan.crops - 1
                yield DecodedClip(window.start_seconds, end_seconds, last, frames)
        yield VideoFacts(content, video.duration_seconds, "; ".join(video.problems) or None)


def _identify(path: Path) -> str:
    """The name of the file's bytes. A pipe is refused: opening it would wait for ever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DecodeError(path, "is not a file (a folder, a pipe or a device)")
        return content_id(path)
    except FileNotFoundError:
        raise DecodeError(path, "no such file") from None
    except (OSError, ValueError) as error:
        raise DecodeError(path, f"cannot be read ({error})") from None
