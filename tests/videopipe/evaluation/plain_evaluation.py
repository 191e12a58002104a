"""A second, independent evaluation: PyAV, torchvision, numpy, scipy and a network.

`plain_evaluation` shares no code with `videopipe`. It decodes every frame of a file, so nothing
depends on seeking or skipping.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from scipy import stats
from torch import Tensor
from torchvision.transforms.v2 import functional as transforms

MEAN = torch.tensor((0.485, 0.456, 0.406)).view(3, 1, 1)
STD = torch.tensor((0.229, 0.224, 0.225)).view(3, 1, 1)


@dataclass(frozen=True)
class Protocol:
    """What decides the scores."""

    num_frames: int
    clip_seconds: float
    resize: int
    image_size: int
    clips: int | None = None  # None: windows side by side, the last moved back to the end
    crops: int = 1
    average: str = "logits"
    per_frame: bool = False  # a network for images: the mean over the frames of a clip
    bicubic: bool = False


def all_frames(path: Path) -> tuple[list[float], Tensor, float]:
    """When each frame begins (seconds), frames uint8 (time, 3, height, width), and the end."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        if container.format.name == "avi":  # has no timestamps; those of FFmpeg are a guess
            starts = [number / float(stream.average_rate) for number in range(len(frames))]
        else:
            starts = [float(frame.pts * frame.time_base) for frame in frames]
        pictures = [torch.from_numpy(frame.to_ndarray(format="rgb24")) for frame in frames]
    period = (starts[-1] - starts[0]) / (len(starts) - 1)
    begins = [start - starts[0] for start in starts]
    return begins, torch.stack(pictures).permute(0, 3, 1, 2), begins[-1] + period


def window_starts(duration: float, protocol: Protocol) -> list[float]:
    """Where clips begin, in seconds."""
    room = duration - protocol.clip_seconds
    if protocol.clips is not None:
        return [max(room, 0) * part for part in np.linspace(0, 1, protocol.clips)]
    if room <= 1e-3:
        return [0.0]
    whole = math.floor((duration + 1e-3) / protocol.clip_seconds)
    starts = [number * protocol.clip_seconds for number in range(whole)]
    return starts if room - starts[-1] < 1e-3 else [*starts, room]


def crops_of(frames: Tensor, protocol: Protocol) -> list[Tensor]:
    """Each uint8 (time, 3, size, size): the centre, or three along the long side."""
    mode = transforms.InterpolationMode("bicubic" if protocol.bicubic else "bilinear")
    scaled = transforms.resize(frames, [protocol.resize], mode, antialias=True)
    size = protocol.image_size
    if protocol.crops == 1:
        return [transforms.center_crop(scaled, [size, size])]
    height, width = scaled.shape[-2:]
    top, left = round((height - size) / 2), round((width - size) / 2)
    if width >= height:
        corners = [(top, 0), (top, left), (top, width - size)]
    else:
        corners = [(0, left), (top, left), (height - size, left)]
    return [scaled[..., y : y + size, x : x + size] for y, x in corners]


def plain_scores(path: Path, network: Callable[[Tensor], Tensor], protocol: Protocol) -> Any:
    """Probabilities (classes,) of one video, float64."""
    begins, pictures, duration = all_frames(path)
    clip_logits = []
    for start in window_starts(duration, protocol):
        part = protocol.clip_seconds / protocol.num_frames
        times = [start + (number + 0.5) * part for number in range(protocol.num_frames)]
        # Containers round times to milliseconds: a frame is shown 0.6 ms before it begins.
        shown = [max(i for i, begin in enumerate(begins) if begin <= t + 6e-4) for t in times]
        for crop in crops_of(pictures[shown], protocol):
            signal = (crop / 255 - MEAN) / STD
            with torch.no_grad():
                if protocol.per_frame:
                    logits = network(signal).mean(0)
                else:
                    logits = network(signal.transpose(0, 1)[None])[0]
            clip_logits.append(logits.double())
    outputs = torch.stack(clip_logits)  # (clips · crops, classes)
    if protocol.average == "logits":
        return outputs.mean(0).softmax(0).numpy()
    return outputs.softmax(1).mean(0).numpy()


def plain_metrics(scores: Any, targets: Sequence[int]) -> dict[str, Any]:
    """Numbers of independent videos, computed video by video."""
    videos, classes = scores.shape
    order = [np.argsort(-row, kind="stable").tolist() for row in scores]
    hits = [ranking[0] == target for ranking, target in zip(order, targets, strict=True)]
    confusion = [[0] * classes for _ in range(classes)]
    for ranking, target in zip(order, targets, strict=True):
        confusion[target][ranking[0]] += 1
    shares = [confusion[c][c] / sum(confusion[c]) for c in range(classes) if sum(confusion[c])]
    bins: dict[int, list[int]] = {}
    for video, row in enumerate(scores):
        bins.setdefault(math.ceil(row.max() * 15), []).append(video)
    gaps = [sum(scores[v].max() - hits[v] for v in members) for members in bins.values()]
    interval = stats.binomtest(sum(hits), videos).proportion_ci(method="wilson")
    return {
        "top1": sum(hits) / videos,
        "low": interval.low,
        "high": interval.high,
        "top5": sum(t in ranking[:5] for ranking, t in zip(order, targets, strict=True)) / videos,
        "mean_class": sum(shares) / len(shares),
        "confusion": confusion,
        "log_loss": -sum(math.log(scores[v][t]) for v, t in enumerate(targets)) / videos,
        "expected_error": sum(map(abs, gaps)) / videos,
    }
