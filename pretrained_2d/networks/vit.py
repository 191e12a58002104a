"""The vision transformer, and S4ND-ViT with a 1D S4ND over the tokens in place of attention.

Dosovitskiy et al., "An image is worth 16×16 words" (2021); Nguyen et al., "S4ND" (2022), 5.1.
The output of S4ND depends on the order of the tokens, so S4ND-ViT has neither positions nor a class
token: the classifier takes the mean over tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.networks.layers.blocks import (
    DropPath,
    Perceptron,
    classifier,
    drop_path_rates,
    linear,
)
from pretrained_2d.networks.layers.convolution import Convolution
from pretrained_2d.networks.layers.mixers import AxisPlan, GatedS4ND, Rate, replace_layers
from s4nd import Call, sampled_together

TOKEN_AXIS = {"state": 64, "basis": "legs", "dt_min": 0.001, "dt_max": 0.1}


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """The options of the vision transformer; the defaults are ViT-B/16.

    `class_token` and `positions` follow the mixer unless given: attention needs them, S4ND
    does not.
    """

    num_classes: int = 1000
    ndim: int = 2
    mixer: Literal["attention", "s4nd"] = "attention"
    image_size: int = 224  # pixels
    patch: int = 16  # pixels
    width: int = 768
    depth: int = 12
    heads: int = 12
    class_token: bool | None = None
    positions: bool | None = None
    drop_path: float = 0.0
    head_dropout: float = 0.0
    axis: Mapping[str, Any] = field(default_factory=lambda: dict(TOKEN_AXIS))
    outputs: int = 2  # kernels for each channel, of S4ND
    norm_eps: float | None = None  # 1e-6 with attention and 1e-5 with S4ND, unless given
    layers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # see `replace_layers`

    def __post_init__(self) -> None:
        if self.ndim != 2:
            raise ValueError(
                f"ndim is {self.ndim}; ViT takes images (2). For clips inflate a 2D checkpoint"
            )
        if self.mixer not in ("attention", "s4nd"):
            raise ValueError(f"mixer is {self.mixer!r}; ViT takes attention or s4nd")
        if self.image_size % self.patch:
            size = self.image_size
            raise ValueError(f"image_size {size} is not a multiple of patch {self.patch}")
        if self.mixer == "attention" and self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")

    @property
    def input_size(self) -> tuple[int, ...]:
        """(height, width) of the base grid, in pixels."""
        return (self.image_size, self.image_size)

    @property
    def has_class_token(self) -> bool:
        """Whether a class token is classified, and not the mean over tokens."""
        return self.mixer == "attention" if self.class_token is None else self.class_token

    @property
    def has_positions(self) -> bool:
        """Whether there is a position table."""
        return self.mixer == "attention" if self.positions is None else self.positions

    @property
    def num_tokens(self) -> int:
        """Tokens of the base grid."""
        return (self.image_size // self.patch) ** 2 + int(self.has_class_token)

    @property
    def eps(self) -> float:
        """Epsilon of the layer norms."""
        return self.norm_eps or (1e-6 if self.mixer == "attention" else 1e-5)


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = linear(width, 3 * width)
        self.proj = linear(width, width)

    def forward(self, tokens: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, tokens, width) -> the same shape."""
        parts = self.qkv(tokens).unflatten(-1, (3, self.heads, -1))  # (b, tokens, 3, heads, size)
        query, key, value = parts.transpose(1, 3).unbind(2)  # (b, heads, tokens, size)
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).flatten(2))


class TokenS4ND(GatedS4ND):
    """A 1D S4ND along the tokens, then a gated linear unit."""

    def forward(self, tokens: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, tokens, width) -> the same shape."""
        return super().forward(tokens.transpose(1, 2), rate).transpose(1, 2)


class ViTBlock(nn.Module):
    """Mix tokens, then channels, each on a residual branch that begins with a norm."""

    def __init__(self, mixer: nn.Module, config: ViTConfig, drop: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, eps=config.eps)
        self.mixer = mixer
        self.norm2 = nn.LayerNorm(config.width, eps=config.eps)
        self.mlp = Perceptron(config.width, 4 * config.width)
        self.drop_path = DropPath(drop)

    def forward(self, tokens: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, tokens, width) -> the same shape."""
        tokens = tokens + self.drop_path(self.mixer(self.norm1(tokens), rate))
        return tokens + self.drop_path(self.mlp(self.norm2(tokens)))


class ViT(nn.Module):
    """Patches become tokens, blocks mix them, the class token or the mean is classified."""

    def __init__(self, config: ViTConfig | None = None, **options: Any) -> None:
        super().__init__()
        self.config = config = replace(config or ViTConfig(), **options)
        self.ndim = config.ndim
        width, patch = config.width, (config.patch, config.patch)
        self.patches = Convolution(3, width, patch, stride=patch)
        self.class_token = _tokens(1, width) if config.has_class_token else None
        self.positions = _tokens(config.num_tokens, width) if config.has_positions else None
        rates = drop_path_rates(config.drop_path, config.depth)
        self.blocks = nn.ModuleList(ViTBlock(_mixer(config), config, rate) for rate in rates)
        self.norm = nn.LayerNorm(width, eps=config.eps)
        self.dropout = nn.Dropout(config.head_dropout)
        self.head = classifier(width, config.num_classes)
        replace_layers(self, config.layers)

    def no_weight_decay(self) -> set[str]:
        """Parameters that the optimiser must not decay, as in DeiT."""
        return {"class_token", "positions"}

    def embed(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, height, width) -> (batch, width): the input of the classifier."""
        tokens = self.patches(signal).flatten(2).transpose(1, 2)  # (batch, tokens, width)
        if self.class_token is not None:
            tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], dim=1)
        if self.positions is not None:
            if tokens.shape[1] != self.positions.shape[1]:
                size = self.config.image_size
                raise ValueError(
                    f"this ViT has positions for images of {size}×{size} pixels, "
                    f"got {signal.shape[2]}×{signal.shape[3]}"
                )
            tokens = tokens + self.positions
        with sampled_together(self._calls(tokens.shape[1], token_rate(rate))):
            for block in self.blocks:
                tokens = block(tokens, token_rate(rate))
        tokens = self.norm(tokens)
        return tokens.mean(1) if self.class_token is None else tokens[:, 0]

    def _calls(self, num_tokens: int, rate: float) -> list[Call]:
        """Every S4ND and what it will be called with."""
        mixers = [block.mixer for block in self.blocks]
        layers = [mixer.mixer for mixer in mixers if isinstance(mixer, TokenS4ND)]
        return [Call(layer, (num_tokens,), rate) for layer in layers]

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:
        """(batch, 3, height, width) -> (batch, num_classes) logits."""
        return self.head(self.dropout(self.embed(signal, rate)))


def _tokens(count: int, width: int) -> nn.Parameter:
    return nn.Parameter(nn.init.trunc_normal_(torch.empty(1, count, width), std=0.02))


def token_rate(rate: Rate) -> float:
    """Base tokens per token: one row further is rate_h rows of rate_w times as many tokens."""
    return float(prod(rate)) if isinstance(rate, Sequence) else float(rate) ** 2


def _mixer(config: ViTConfig) -> nn.Module:
    if config.mixer == "attention":
        return Attention(config.width, config.heads)
    axes = AxisPlan(config.axis).configs([config.num_tokens], config.width)
    return TokenS4ND(config.width, axes, outputs=config.outputs)
