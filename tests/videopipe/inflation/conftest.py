"""Small 2D networks of the kinds that inflation must handle."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = self.qkv(tokens).chunk(3, -1)
        return self.proj(nn.functional.scaled_dot_product_attention(query, key, value))


class Hybrid(nn.Module):
    """Convolutions with batch norm, a depthwise one, a residual, attention over tokens, a head."""

    def __init__(self, classes: int = 5, checkpointed: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.pointwise = nn.Conv2d(8, 12, 1)
        self.unused = nn.Conv2d(8, 8, 3)
        self.attn = Attention(12)
        self.head = nn.Linear(12, classes)
        self.checkpointed = checkpointed

    def blocks(self, signal: Tensor) -> Tensor:
        signal = signal + self.depthwise(signal).relu()
        tokens = self.pointwise(signal).flatten(2).transpose(1, 2)
        return tokens + self.attn(tokens)

    def forward(self, images: Tensor) -> Tensor:
        signal = self.stem(images)
        if self.checkpointed:
            tokens = checkpoint(self.blocks, signal, use_reentrant=False)
        else:
            tokens = self.blocks(signal)
        return self.head(tokens.mean(1))


@pytest.fixture
def hybrid() -> Callable[..., Hybrid]:
    def make(**options: object) -> Hybrid:
        torch.manual_seed(0)
        network = Hybrid(**options)  # type: ignore[arg-type]
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):  # as after training
                nn.init.normal_(module.running_mean)
                nn.init.uniform_(module.running_var, 0.5, 2)
        return network.eval()

    return make


@pytest.fixture
def still() -> Callable[..., Tensor]:
    """One image per clip, repeated over time."""

    def make(clips: int = 2, frames: int = 6, size: int = 16) -> tuple[Tensor, Tensor]:
        images = torch.randn(clips, 3, size, size)
        return images, images[:, :, None].expand(-1, -1, frames, -1, -1)

    return make
