"""A video network: a backbone for frames or short clips, and a head over time."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.layers.convolution import fold_time
from videopipe.models import build_any
from videopipe.probing.probe_config import HeadConfig
from videopipe.probing.temporal_heads import TemporalHead

Rate = float | Sequence[float]


@dataclass(frozen=True)
class FeatureShape:
    """How a view becomes features: `steps` windows of `window` frames, `channels` numbers each."""

    channels: int
    steps: int
    window: int  # 1 for an image network, the frames of a clip for a video network
    ndim: int  # axes of the backbone's input: 2 or 3


class StepFeatures(nn.Module):
    """A backbone applied to each frame, or to each window of frames, of a clip."""

    def __init__(self, backbone: nn.Module, ndim: int, window: int) -> None:
        super().__init__()
        self.backbone, self.ndim, self.window = backbone, ndim, window

    def forward(self, clip: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, time, height, width) -> (batch, channels, steps).

        `rate` is the number of base samples per sample: one number, or (time, height, width).
        Frames that do not fill a last window are left out.
        """
        batch = clip.shape[0]
        inner = rate
        if self.ndim == 2:
            signal = fold_time(clip)
            inner = rate if isinstance(rate, int | float) else tuple(rate[1:])
        else:
            window = max(1, round(self.window / time_rate(rate)))
            steps = clip.shape[2] // window
            if steps == 0:
                raise ValueError(
                    f"a clip of {clip.shape[2]} frames is shorter than a window of {window}"
                )
            whole = clip[:, :, : steps * window]
            signal = rearrange(whole, "b c (s w) y x -> (b s) c w y x", w=window)
        features = self.backbone.embed(signal, inner)  # type: ignore[operator]
        return features.view(batch, -1, features.shape[-1]).mT


class ProbedNetwork(nn.Module):
    """`net(clip, rate) -> logits`: features of every step, then a head over time."""

    def __init__(self, backbone: nn.Module, shape: FeatureShape, temporal: TemporalHead) -> None:
        super().__init__()
        self.shape = shape
        self.features = StepFeatures(backbone, shape.ndim, shape.window)
        self.temporal = temporal
        # The backbone's classifier gets no gradient; data-parallel training must not wait for it.
        unused = getattr(backbone, "head", None)
        if isinstance(unused, nn.Module):
            unused.requires_grad_(False)

    @property
    def head(self) -> nn.Module:
        """The layer that gives one number for each class."""
        return self.temporal.classifier

    def forward(self, clip: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, time, height, width) -> (batch, classes) logits."""
        return self.temporal(self.features(clip, rate), self._rate_of_steps(rate))

    def embed(self, clip: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, time, height, width) -> (batch, features), the input of the classifier."""
        return self.temporal.embed(self.features(clip, rate), self._rate_of_steps(rate))

    def _rate_of_steps(self, rate: Rate) -> float:
        """1 for windows of a video network, whose duration does not depend on the frame rate."""
        return time_rate(rate) if self.shape.ndim == 2 else 1.0


def time_rate(rate: Rate) -> float:
    """The rate along time of one number, or of (time, height, width)."""
    return float(rate if isinstance(rate, int | float) else rate[0])


def feature_shape(network: nn.Module, card: ModelCard, num_frames: int) -> FeatureShape:
    """The shape of the features of a view, from one pass over a black clip."""
    window = 1 if card.ndim == 2 else (card.num_frames or num_frames)
    size = card.preprocessing.image_size
    with torch.inference_mode():
        channels = StepFeatures(network, card.ndim, window)(torch.zeros(1, 3, window, size, size))
    return FeatureShape(channels.shape[1], num_frames // window, window, card.ndim)


def probe_entry(shape: FeatureShape, head: HeadConfig) -> dict[str, Any]:
    """The entry of a card from which a probe is built again."""
    names = [field.name for field in fields(HeadConfig)]
    return {**asdict(shape), "head": {name: getattr(head, name) for name in names}}


def build_probed(card: ModelCard) -> ProbedNetwork:
    """The untrained network of a card that describes a probe."""
    entry: Mapping[str, Any] = card.probe or {}
    try:
        shape = FeatureShape(**{field.name: entry[field.name] for field in fields(FeatureShape)})
        head = HeadConfig(**entry["head"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the entry 'probe' of the card cannot be used ({error}); train the probe again"
        ) from error
    backbone = build_any(replace(card, probe=None, ndim=shape.ndim))
    temporal = TemporalHead(shape.channels, shape.steps, len(card.labels or ()), head)
    return ProbedNetwork(backbone, shape, temporal)
