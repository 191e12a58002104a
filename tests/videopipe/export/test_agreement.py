"""How far an exported file is from its network, on clips in any batches."""

import pytest
import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from videopipe.export.agreement import compare
from videopipe.export.clip_graph import GraphInput

CARD = ModelCard(
    architecture="isotropic",
    ndim=3,
    labels=("x", "y", "z"),
    preprocessing=Preprocessing(image_size=4, resize=4),
    num_frames=2,
    clip_seconds=1.0,
)
CLIPS = torch.randint(0, 256, (5, 3, 2, 4, 4), dtype=torch.uint8)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(96, 3)

    def forward(self, clips: Tensor, rate: float = 1.0) -> Tensor:
        return self.head(clips.flatten(1))


@pytest.mark.parametrize("batch_size", [None, 1, 2, 3, 8])
@pytest.mark.parametrize("sign", [-1, 0, 1])
def test_the_largest_difference_of_any_clip_and_class_counts(
    batch_size: int | None, sign: int
) -> None:
    torch.manual_seed(0)
    network, sizes = Network().eval(), list[int]()
    normalised = CARD.preprocessing.normalize(CLIPS)
    with torch.no_grad():
        exact = network(normalised)

    def run(batch: Tensor) -> Tensor:
        sizes.append(len(batch))
        with torch.no_grad():
            logits = network(batch)
        changed = (batch == normalised[3]).flatten(1).all(1)  # the fourth clip, wherever it is
        return logits + changed[:, None] * torch.tensor([0.0, sign * 0.5, 0.0])

    found = compare(
        run, network, CARD, GraphInput.of(CARD, "float32"), ("clips", CLIPS),
        tolerance=1e-4, batch_size=batch_size,
    )  # fmt: skip
    assert found.num_clips == 5
    assert found.difference == pytest.approx(abs(sign) * 0.5 / float(exact.abs().max()), abs=1e-5)
    assert found.holds == (sign == 0)
    if sign == 0:
        assert found.same_top1 == 5
    assert sizes == ([1, 4] if batch_size is None else [batch_size] * -(-5 // batch_size))
