"""Decode the frames of overlapping clips once; memory for one clip and its overlap."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

from pretrained_2d.checkpoints.card import Preprocessing
from videopipe.dataset.clips.sampling import Clip, frame_times
from videopipe.video.video import EndOfVideoError, Video

RAW_BYTES_AT_A_TIME = 64 * 2**20  # of full-size frames, before they are scaled down
Microseconds = int


class FrameReader:
    """Frames of one video, scaled and cropped for a model.

    Times are kept in whole microseconds, so that the same moment in two clips is the same number.
    """

    def __init__(
        self,
        video: Video,
        preprocessing: Preprocessing,
        crops: int,
        ends_seconds: Sequence[float] = (),
    ) -> None:
        """`ends_seconds`, in order, are those of the shots or of the range that is read.

        A clip that reaches beyond the end of its shot repeats the last frame of the shot.
        """
        self.video, self.preprocessing, self.crops = video, preprocessing, crops
        self._ends: list[Microseconds] = [round(end * 1e6) for end in ends_seconds]
        self._half_a_frame = 0.5e6 / video.frame_rate
        self._kept: dict[Microseconds, Tensor] = {}  # each (crops, channels, size, size)

    def read(self, clips: Sequence[Clip], num_frames: int) -> Iterator[tuple[Clip, Tensor]]:
        """Every clip with its crops (crops, channels, time, size, size), clips in order of time.

        Before a clip is yielded, all frames up to its end are decoded in order of time, also those
        of later clips: the decoder never seeks backwards.
        """
        ahead: deque[tuple[Clip, list[Microseconds]]] = deque()
        coming = iter(clips)
        following = next(coming, None)
        while ahead or following is not None:
            if not ahead and following is not None:
                ahead.append((following, self._moments(following, num_frames)))
                following = next(coming, None)
            clip, moments = ahead[0]
            while following is not None and self._moments(following, num_frames)[0] <= moments[-1]:
                ahead.append((following, self._moments(following, num_frames)))
                following = next(coming, None)
            wanted = {time for _, times in ahead for time in times if time <= moments[-1]}
            self._fetch(sorted(wanted - self._kept.keys()), clip)
            yield clip, torch.stack([self._kept[time] for time in moments], dim=2)
            ahead.popleft()
            self._forget(min((times[0] for _, times in ahead), default=None))

    def _moments(self, clip: Clip, num_frames: int) -> list[Microseconds]:
        moments = [round(time * 1e6) for time in frame_times(clip, num_frames)]
        start = round(clip.start_seconds * 1e6)
        place = bisect_right(self._ends, start)
        if place == len(self._ends):
            return moments
        last = max(round(self._ends[place] - self._half_a_frame), start)
        return [min(moment, last) for moment in moments]

    def _forget(self, before: Microseconds | None) -> None:
        if before is None:
            self._kept.clear()
            return
        for time in [time for time in self._kept if time < before]:
            del self._kept[time]

    def _fetch(self, moments: Sequence[Microseconds], clip: Clip) -> None:
        """Decode these moments into `_kept`, a few full-size frames at a time."""
        video = self.video
        several = max(1, RAW_BYTES_AT_A_TIME // max(1, video.height * video.width * 3))
        for first in range(0, len(moments), several):
            part = moments[first : first + several]
            try:
                frames = video.frames_at([time / 1e6 for time in part])
            except EndOfVideoError:
                # The video ends before the duration in its header. A clip that starts before the
                # end repeats the last frame. A clip that starts after it does not exist.
                if clip.start_seconds >= video.duration_seconds:
                    raise
                end = video.duration_seconds
                frames = video.frames_at([min(time / 1e6, end) for time in part])
            prepared = self._prepared(frames)  # (time, crops, channels, size, size)
            self._kept.update(zip(part, prepared, strict=True))

    def _prepared(self, frames: Tensor) -> Tensor:
        if self.crops == 1:
            return self.preprocessing.resize_and_crop(frames)[:, None]
        return torch.stack(three_crops(frames, self.preprocessing), dim=1)


def three_crops(frames: Tensor, preprocessing: Preprocessing) -> list[Tensor]:
    """Squares at the start, the middle and the end of the long side, after resizing."""
    size = preprocessing.image_size
    mode = transforms.InterpolationMode(preprocessing.interpolation)
    scaled_size = [max(size, preprocessing.resize)] * (2 if preprocessing.squash else 1)
    scaled = transforms.resize(frames, scaled_size, mode, antialias=True)
    height, width = scaled.shape[-2:]
    room_down, room_right = height - size, width - size
    crops = []
    for fraction in (0.0, 0.5, 1.0):
        top = round(room_down * (fraction if height > width else 0.5))
        left = round(room_right * (fraction if width >= height else 0.5))
        crops.append(transforms.crop(scaled, top, left, size, size))
    return crops
