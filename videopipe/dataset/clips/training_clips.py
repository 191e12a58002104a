"""Clips for training: a map-style data set, the same for any number of workers."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from pretrained_2d.randomness import Sample, seeded
from videopipe.dataset.clips.sampling import frame_times, random_clip
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DataError
from videopipe.video.video import open_video


class ClipDataset(Dataset[tuple[Tensor, int | Tensor]]):
    """One random clip per video: `dataset[Sample(item, epoch, repeat)]` -> (clip, label).

    The label of multi-label data is a vector of `num_classes` zeros and ones.

    The clip is uint8 (channels, time, height, width) and depends only on the seed, the epoch, the
    item and the repeat. Videos that are known to be unreadable are not in the data set; they are
    listed in `left_out`.
    """

    def __init__(
        self,
        records: Sequence[VideoRecord],
        *,
        num_frames: int,
        clip_seconds: float,
        transform: Callable[[Tensor], Tensor] | None = None,
        seed: int = 0,
        short_side: int | None = None,
        num_classes: int | None = None,
    ) -> None:
        self.left_out = tuple(record for record in records if not record.usable)
        self.records = tuple(record for record in records if record.usable)
        unlabelled = [record.path for record in self.records if not record.labelled]
        if unlabelled:
            raise DataError(f"{len(unlabelled)} videos have no label, first {unlabelled[0]}")
        self.num_frames, self.clip_seconds = num_frames, clip_seconds
        self.transform, self.seed = transform, seed
        self.num_classes = num_classes
        # The decoder scales down to the largest size that the transform uses.
        largest = getattr(transform, "short_side", None)
        self.short_side = largest[-1] if short_side is None and largest else short_side

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Sample | int) -> tuple[Tensor, int | Tensor]:
        sample = index if isinstance(index, Sample) else Sample(int(index))
        record = self.records[sample.item]
        with seeded(self.seed, sample.epoch, sample.item, sample.repeat):
            frames = self._frames(record, random.random())
            if self.transform is not None:
                frames = self.transform(frames)
        return frames.movedim(1, 0).contiguous(), self._target(record)

    def _target(self, record: VideoRecord) -> int | Tensor:
        """The number of its class; of multi-label data 1 for each of its classes, else 0."""
        if record.label is not None:
            return record.label
        assert record.labels is not None
        if self.num_classes is None:
            raise ValueError("multi-label videos need num_classes")
        target = torch.zeros(self.num_classes)  # (classes,)
        target[list(record.labels)] = 1.0
        return target

    def _frames(self, record: VideoRecord, fraction: float) -> Tensor:
        path = Path(record.frames_path or record.path)
        rate = record.given_rate
        with open_video(path, short_side=self.short_side, frame_rate=rate) as video:
            start, end = record.span_seconds
            end = min(end, video.duration_seconds)
            length = max(end - start, 1 / video.frame_rate)
            clip = random_clip(length, self.clip_seconds, fraction)
            times = frame_times(clip, self.num_frames)
            last = max(start, end - 0.5 / video.frame_rate)
            return video.frames_at([min(start + time, last) for time in times])
