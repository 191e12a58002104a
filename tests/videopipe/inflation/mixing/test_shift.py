"""Shifted channels, one entry at a time."""

import pytest
import torch

from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch
from videopipe.inflation.mixing.shift import TimeShift

CLIPS, STEPS, PARTS = 2, 4, 3


@pytest.mark.parametrize("padding", ["replicate", "zeros"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("channels", "share"), [(2, 0), (3, 1), (15, 1), (16, 2), (25, 3)])
def test_an_eighth_comes_from_either_side(
    channels: int, share: int, causal: bool, padding: str
) -> None:
    batch = FoldedBatch(CLIPS, STEPS)
    layer = TimeShift(channels, batch, channel_dim=-1, padding=padding, causal=causal)
    folded = torch.randn(CLIPS * STEPS * PARTS, 5, channels)
    found = layer(folded).view(CLIPS, STEPS, PARTS, 5, channels)
    signal = folded.view_as(found)
    for step in range(STEPS):
        for channel in range(channels):
            offset = -1 if channel < share else int(channel < 2 * share and not causal)
            there = min(max(step + offset, 0), STEPS - 1)
            expected = signal[:, there, ..., channel]
            if padding == "zeros" and there != step + offset:
                expected = torch.zeros_like(expected)
            assert torch.equal(found[:, step, ..., channel], expected), (step, channel)


def test_channels_may_be_anywhere_and_pooled_steps_are_fewer() -> None:
    folded = torch.randn(CLIPS * STEPS // 2, 16, 5)
    batch = FoldedBatch(CLIPS, STEPS)
    first = TimeShift(16, batch, channel_dim=1, reduction=2)(folded)
    last = TimeShift(16, FoldedBatch(CLIPS, STEPS // 2), channel_dim=-1)(folded.transpose(1, 2))
    assert torch.equal(first, last.transpose(1, 2))
