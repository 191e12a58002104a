"""Attention along time against one place, one head and one step at a time."""

import math

import pytest
import torch
from torch import Tensor

from videopipe.inflation.mixing.attention import TimeAttention
from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch


def plain(layer: TimeAttention, steps: Tensor, rate: float, causal: bool) -> Tensor:
    """(steps, channels) of one place of one clip; positions are turns of complex numbers."""
    width, half = layer.width, layer.width // 2
    rows = layer.qkv(layer.norm(steps)).view(len(steps), 3, layer.heads, width)
    mixed = torch.zeros(len(steps), layer.heads * width, dtype=steps.dtype)
    for head in range(layer.heads):
        query, key, value = rows[:, :, head].unbind(1)  # each (steps, width)
        for now in range(len(steps)):
            weights = []
            for other in range(now + 1 if causal else len(steps)):
                score = 0.0
                for pair in range(half):
                    speed = 1000.0 ** (-2 * pair / width)
                    turn = complex(math.cos((now - other) * rate * speed),
                                   math.sin((now - other) * rate * speed))  # fmt: skip
                    q = complex(query[now, pair], query[now, pair + half])
                    k = complex(key[other, pair], key[other, pair + half])
                    score += (q * turn * k.conjugate()).real
                weights.append(score / math.sqrt(width))
            shares = torch.tensor(weights, dtype=steps.dtype).softmax(0)
            mixed[now, head * width : (head + 1) * width] = shares @ value[: len(shares)]
    return steps + layer.project(mixed)


@pytest.mark.parametrize(("rate", "causal"), [(1.0, False), (0.5, True)])
@torch.no_grad()
def test_it_equals_attention_place_by_place(rate: float, causal: bool) -> None:
    batch = FoldedBatch(clips=2, steps=5, rate=rate)
    layer = TimeAttention(8, batch, heads=2, causal=causal).double()
    for parameter in layer.parameters():
        parameter.normal_()
    folded = torch.randn(10, 8, 3).double()  # (clips × steps, channels, places)
    found = layer(folded).view(2, 5, 8, 3)
    for clip in range(2):
        for place in range(3):
            steps = folded.view(2, 5, 8, 3)[clip, :, :, place]
            expected = plain(layer, steps, rate, causal)
            # The angles are computed in float32.
            torch.testing.assert_close(found[clip, :, :, place], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("channels", "heads", "width"), [(1, 1, 2), (2, 1, 2), (3, 1, 2), (64, 1, 64), (192, 3, 64)]
)
def test_heads_are_of_about_64_channels_and_even(channels: int, heads: int, width: int) -> None:
    layer = TimeAttention(channels, FoldedBatch(clips=1, steps=2))
    assert (layer.heads, layer.width) == (heads, width)
    folded = torch.randn(2, channels, 4)
    assert torch.equal(layer(folded), folded), "starts as the identity"
