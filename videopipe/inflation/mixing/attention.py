"""Attention along time: every position of a frame attends to the same position in other steps."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch

CHANNELS_PER_HEAD = 64
LONGEST_WAVE = 1000.0  # in steps, of the slowest rotation


class TimeAttention(nn.Module):
    """x + project(attention over the steps of norm(x)), with rotary positions along time.

    The temporal half of the divided attention of TimeSformer (Bertasius et al., 2021). The
    projection starts at zero, so that the network starts as the 2D network on every frame. Rotary
    positions serve any number of steps; the rate of the time axis scales them.
    """

    def __init__(
        self,
        channels: int,
        batch: FoldedBatch,
        *,
        heads: int | None = None,
        channel_dim: int = 1,
        reduction: int = 1,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.heads = max(1, channels // CHANNELS_PER_HEAD) if heads is None else heads
        self.width = max(2, channels // self.heads // 2 * 2)  # of a head; even for the rotation
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * self.heads * self.width)
        self.project = nn.Linear(self.heads * self.width, channels)
        nn.init.zeros_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        self.batch = batch
        self.channel_dim = channel_dim
        self.reduction = reduction
        self.causal = causal

    def forward(self, folded: Tensor) -> Tensor:
        """(clips × steps × parts, *rest) -> the same shape."""
        rows = folded.movedim(self.channel_dim, -1)  # (clips × steps × parts, …, channels)
        qkv = self.batch.unfold(self.qkv(self.norm(rows)), self.reduction)
        clips, steps = qkv.shape[:2]
        # (clips, steps, places, 3 × heads, width) -> (clips × places, 3 × heads, steps, width)
        heads = qkv.reshape(clips, steps, -1, 3 * self.heads, self.width).permute(0, 2, 3, 1, 4)
        turned, value = torch.split(heads.flatten(0, 1), [2 * self.heads, self.heads], 1)
        query, key = _rotated(turned, self.batch.rate * self.reduction).chunk(2, 1)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        mixed = mixed.view(clips, -1, self.heads, steps, self.width).permute(0, 3, 1, 2, 4)
        mixed = mixed.reshape(*rows.shape[:-1], -1)
        return folded + self.project(mixed).movedim(-1, self.channel_dim)


def _rotated(vectors: Tensor, rate: float) -> Tensor:
    """(…, steps, width) with each pair of entries turned by an angle that grows with the step."""
    steps, width = vectors.shape[-2:]
    half = torch.arange(width // 2, device=vectors.device, dtype=torch.float32)
    speed = LONGEST_WAVE ** (-2 * half / width)
    places = torch.arange(steps, device=vectors.device) * rate
    angle = places[:, None] * speed  # (steps, width / 2)
    cos, sin = angle.cos().to(vectors.dtype), angle.sin().to(vectors.dtype)
    one, other = vectors.chunk(2, -1)
    return torch.cat((one * cos - other * sin, one * sin + other * cos), -1)
