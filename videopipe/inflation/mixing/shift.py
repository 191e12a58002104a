"""Shifting channels along time: mixing without parameters."""

from functools import partial

import torch
from torch import Tensor, nn

from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch, shifted
from videopipe.inflation.options import Padding

SHARE = 8  # one channel in eight comes from each neighbouring step


class TimeShift(nn.Module):
    """An eighth of the channels from the step before, another eighth from the step after.

    The idea is that of TSM (Lin et al., 2019), with the end frames repeated beyond the ends, which
    keeps a still video exact. A causal shift takes channels from the step before only. Layers of
    three to eight channels shift one channel in each direction, smaller ones none.
    """

    def __init__(
        self,
        channels: int,
        batch: FoldedBatch,
        *,
        channel_dim: int = 1,
        padding: Padding = "replicate",
        reduction: int = 1,
        causal: bool = False,
    ) -> None:
        super().__init__()
        share = max(channels // SHARE, int(channels > 2))
        self.sizes = [share, 0 if causal else share]
        self.sizes.append(channels - sum(self.sizes))
        self.batch = batch
        self.channel_dim = channel_dim
        self.padding: Padding = padding
        self.reduction = reduction

    def forward(self, folded: Tensor) -> Tensor:
        """(clips × steps × parts, *rest) -> the same shape."""
        signal = self.batch.unfold_channels(folded, self.channel_dim, self.reduction)
        earlier, later, same = torch.split(signal, self.sizes, dim=3)
        if self.batch.streaming is not None:
            earlier = self.batch.streaming.advance(self, partial(self._next_step, earlier))
        else:
            earlier = shifted(earlier, -1, self.padding)
            later = shifted(later, 1, self.padding)
        return torch.cat((earlier, later, same), dim=3).reshape(folded.shape)

    def _next_step(self, now: Tensor, before: Tensor | None) -> tuple[Tensor, Tensor]:
        if before is None:
            before = now if self.padding == "replicate" else torch.zeros_like(now)
        return before, now.clone()

    def extra_repr(self) -> str:
        """Shown by print(network)."""
        before, after, same = self.sizes
        return f"before={before}, after={after}, same={same}, padding={self.padding}"
