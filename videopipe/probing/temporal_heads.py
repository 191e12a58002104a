"""Heads over features in time: (batch, channels, steps) -> one vector per clip.

`mean` and `attentive` give the same vector for frames in any order. `conv` and `s4nd` do not: a
nonlinearity lies between the mixing along time and the mean.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from s4nd import S4ND, AxisConfig
from videopipe.probing.probe_config import HeadConfig


class Standardisation(nn.Module):
    """Zero mean and unit variance per channel over the training features.

    The scale of features differs by orders of magnitude between networks; standardised,
    one learning rate suits all.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    def forward(self, features: Tensor) -> Tensor:
        """(batch, channels, steps) -> the same shape."""
        return (features - self.mean[:, None]) / self.std[:, None]


class MeanPooling(nn.Module):
    """The mean over time."""

    def __init__(self, channels: int, config: HeadConfig, steps: int) -> None:  # noqa: ARG002
        super().__init__()
        self.out_channels = channels

    def forward(self, features: Tensor, rate: float = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, channels, steps) -> (batch, channels)."""
        return features.mean(-1)


class AttentivePooling(nn.Module):
    """A mean over time with weights from one learned query per attention head."""

    def __init__(self, channels: int, config: HeadConfig, steps: int) -> None:  # noqa: ARG002
        super().__init__()
        self.out_channels, self.heads = config.width, config.attention_heads
        self.query = nn.Parameter(torch.randn(self.heads, 1, config.width // self.heads))
        # A bias would add the same number to the weights of all steps, which softmax ignores.
        self.keys = nn.Conv1d(channels, config.width, 1, bias=False)
        self.values = nn.Conv1d(channels, config.width, 1)

    def forward(self, features: Tensor, rate: float = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, channels, steps) -> (batch, width)."""
        batch, _, steps = features.shape
        shape = (batch, self.heads, -1, steps)
        keys = self.keys(features).view(shape).mT  # (batch, heads, steps, width / heads)
        values = self.values(features).view(shape).mT
        query = self.query.expand(batch, -1, -1, -1)
        return functional.scaled_dot_product_attention(query, keys, values).flatten(1)


class TemporalConvolution(nn.Module):
    """A convolution along time; the first and last step are repeated beyond the ends."""

    def __init__(self, config: HeadConfig, steps: int) -> None:  # noqa: ARG002
        super().__init__()
        size, width = config.kernel_size, config.width
        self.taps = nn.Conv1d(width, width, size, padding=size // 2, padding_mode="replicate")

    def forward(self, signal: Tensor, rate: float = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, width, steps) -> the same shape."""
        return self.taps(signal)


class StateSpaceMixer(nn.Module):
    """S4ND with time as its only axis."""

    def __init__(self, config: HeadConfig, steps: int) -> None:
        super().__init__()
        axis = AxisConfig(steps, state=config.state, basis="legs", length=config.length)
        self.layer = S4ND(config.width, [axis])

    def forward(self, signal: Tensor, rate: float = 1.0) -> Tensor:
        """(batch, width, steps) -> the same shape; `rate` base steps per step."""
        return self.layer(signal, rate)


class TemporalBlock(nn.Module):
    """x + project(gelu(mix(norm(x)))), where `mix` works along time."""

    def __init__(self, mixer: nn.Module, config: HeadConfig) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, config.width)
        self.mixer = mixer
        self.project = nn.Conv1d(config.width, config.width, 1)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, signal: Tensor, rate: float) -> Tensor:
        """(batch, width, steps) -> the same shape."""
        mixed = functional.gelu(self.mixer(self.norm(signal), rate))
        return signal + self.project(self.dropout(mixed))


class BlockPooling(nn.Module):
    """A projection, residual blocks along time, the mean over time."""

    def __init__(
        self,
        channels: int,
        config: HeadConfig,
        steps: int,
        *,
        mixer: Callable[[HeadConfig, int], nn.Module],
    ) -> None:
        super().__init__()
        self.out_channels = config.width
        self.project = nn.Conv1d(channels, config.width, 1)
        blocks = (TemporalBlock(mixer(config, steps), config) for _ in range(config.layers))
        self.blocks = nn.ModuleList(blocks)

    def forward(self, features: Tensor, rate: float = 1.0) -> Tensor:
        """(batch, channels, steps) -> (batch, width)."""
        signal = self.project(features)
        for block in self.blocks:
            signal = block(signal, rate)
        return signal.mean(-1)


def make_pooling(channels: int, config: HeadConfig, steps: int) -> nn.Module:
    """The pooling that `config.head` names, for features of `channels` at `steps` moments."""
    if config.head == "mean":
        return MeanPooling(channels, config, steps)
    if config.head == "attentive":
        return AttentivePooling(channels, config, steps)
    mixer = TemporalConvolution if config.head == "conv" else StateSpaceMixer
    return BlockPooling(channels, config, steps, mixer=mixer)


class TemporalHead(nn.Module):
    """Standardisation, pooling over time, dropout and a linear classifier."""

    def __init__(self, channels: int, steps: int, num_classes: int, config: HeadConfig) -> None:
        super().__init__()
        self.standardise = Standardisation(channels)
        self.pooling = make_pooling(channels, config, steps)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(self.pooling.out_channels, num_classes)  # type: ignore[arg-type]
        nn.init.trunc_normal_(self.classifier.weight, std=0.02)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, features: Tensor, rate: float = 1.0) -> Tensor:
        """(batch, channels, steps) -> (batch, classes) logits."""
        return self.classifier(self.dropout(self.embed(features, rate)))

    def embed(self, features: Tensor, rate: float = 1.0) -> Tensor:
        """(batch, channels, steps) -> (batch, width), the input of the classifier."""
        return self.pooling(self.standardise(features), rate)
