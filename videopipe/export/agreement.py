"""Compare an exported file with its network on clips of real or generated videos."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.moving_shapes import MOTIONS, draw_scene, frames_of
from videopipe.errors import DataError
from videopipe.export.clip_graph import GraphInput
from videopipe.export.file_formats import Run
from videopipe.prediction.discovery import VideoListing
from videopipe.scoring.clip_classifier import ClipClassifier
from videopipe.scoring.clips import ClipPlan, ClipTask, DecodedClip, decode_clips
from videopipe.scoring.settings import Execution, Scoring
from videopipe.system.pool import Event, Failed, WorkerPool

NUM_CLIPS = 4


@dataclass(frozen=True)
class Agreement:
    """How far the logits, or features, of an exported file are from those of the network."""

    difference: float  # largest |exported - network|, relative to the largest |network|
    same_top1: int | None  # None: an encoder, which has no classes
    num_clips: int
    source: str  # of the clips
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether the difference is finite and within the tolerance."""
        return math.isfinite(self.difference) and self.difference <= self.tolerance

    def __str__(self) -> str:
        """One sentence."""
        clips = f"{self.num_clips} {self.source}"
        if self.same_top1 is not None:
            clips = f"same top-1 on {self.same_top1} of {clips}"
        return (
            f"largest relative difference {self.difference:.1e} (tolerance {self.tolerance:.0e}), "
            f"{clips}"
        )


def compare(
    run: Run,
    network: nn.Module,
    card: ModelCard,
    of: GraphInput,
    clips: tuple[str, Tensor],
    *,
    tolerance: float,
    batch_size: int | None,
) -> Agreement:
    """Run both on uint8 clips (n, channels, time, height, width).

    The network computes each clip alone, as `predict` does on a CPU. The file computes the first
    one alone and the others in one batch, or all in batches of its fixed size. A network for images
    is compared on the first frame of each clip.
    """
    source, frames = clips
    expected = torch.cat([_reference(network, card, clip[None]) for clip in frames])
    inputs = of.prepare(frames[:, :, 0] if of.num_frames is None else frames, card)
    if batch_size is None:
        batches = [inputs[:1], inputs[1:]] if len(inputs) > 1 else [inputs]
    else:
        padded = -(-len(inputs) // batch_size) * batch_size  # the first clips fill the last batch
        order = torch.arange(padded) % len(inputs)
        batches = [inputs[places] for places in order.chunk(padded // batch_size)]
    actual = torch.cat([run(batch) for batch in batches])[: len(expected)]
    scale = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
    return Agreement(
        difference=float((actual - expected).abs().max() / scale),
        same_top1=None if card.is_encoder else _same_top1(actual, expected),
        num_clips=len(expected),
        source=source,
        tolerance=tolerance,
    )


def _same_top1(one: Tensor, other: Tensor) -> int:
    return int((one.argmax(-1) == other.argmax(-1)).sum())


def _reference(network: nn.Module, card: ModelCard, clip: Tensor) -> Tensor:
    if card.ndim == 2:
        clip = clip[:, :, :1]
    return ClipClassifier(network, card, Scoring())(clip)[0]


def real_clips(card: ModelCard, videos: Sequence[str]) -> tuple[str, Tensor]:
    """The middle clip of each of the first few videos, preprocessed, as uint8.

    Raises DataError for a video that cannot be decoded.
    """
    plan = ClipPlan.of(card, Scoring(clips=1))
    listing = islice(VideoListing(videos), NUM_CLIPS)
    tasks = [ClipTask(index, video, plan) for index, video in enumerate(listing)]
    execution = Execution(workers=1)
    found: dict[int, Tensor] = {}
    with WorkerPool(
        decode_clips,
        workers=execution.num_workers,
        timeout_seconds=execution.timeout_seconds,
        memory_limit_bytes=execution.memory_limit_bytes,
    ) as pool:
        for event in pool.run(tasks):
            if isinstance(event, Failed):
                raise DataError(
                    f"{event.task.source.path}: {event.reason}; name videos that can be decoded"
                )
            if isinstance(event, Event) and isinstance(event.payload, DecodedClip):
                found[event.task.index] = event.payload.frames.clone()
    names = ", ".join(Path(task.source.path).name for task in tasks)
    clips = torch.stack([found[task.index] for task in tasks])
    return f"real clip{'s' * (len(clips) > 1)} ({names})", clips


def generated_clips(card: ModelCard) -> tuple[str, Tensor]:
    """Clips of moving shapes, the same ones every time, as uint8."""
    num_frames, seconds = Scoring().clip_shape(card)
    size, channels = card.preprocessing.image_size, len(card.preprocessing.mean)
    random = np.random.default_rng(0)

    def draw() -> Iterator[Tensor]:
        for motion in list(MOTIONS)[:NUM_CLIPS]:
            scene = draw_scene(random, size)
            frames = frames_of(
                scene, motion, num_frames=num_frames, frame_rate=num_frames / seconds
            )
            clip = torch.from_numpy(np.stack(list(frames))).permute(3, 0, 1, 2)
            repeats = -(-channels // 3)
            yield clip.repeat(repeats, 1, 1, 1)[:channels]

    return "generated clips", torch.stack(list(draw()))
