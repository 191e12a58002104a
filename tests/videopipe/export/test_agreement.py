"""How far an exported file is from its network, on clips in any batches."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from videopipe.export.agreement import compare
from videopipe.export.checkpoint_export import describe
from videopipe.export.clip_graph import GraphInput, GraphNetwork, InputType

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


@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize(
    ("input_type", "dtype", "shape"),
    [("float32", torch.float32, (3, 2, 4, 4)), ("uint8", torch.uint8, (2, 4, 4, 3))],
)
def test_the_graph_of_either_input_gives_the_logits_of_the_network(
    input_type: InputType, dtype: torch.dtype, shape: tuple[int, ...], ndim: int
) -> None:
    card = replace(CARD, ndim=ndim, preprocessing=replace(CARD.preprocessing, mean=(0.1, 0.2, 0.7)))
    clips = CLIPS if ndim == 3 else CLIPS[:, :, 0]
    shape = shape if ndim == 3 else tuple(n for n in shape if n != 2)  # without time
    network = nn.Sequential(nn.Flatten(), nn.Linear(clips[0].numel(), 3)).eval()
    of = GraphInput.of(card, input_type)
    given = of.prepare(clips, card)
    assert (given.dtype, tuple(given.shape[1:]), of.shape) == (dtype, shape, shape)
    mean, std = (
        torch.tensor(values).view(3, *[1] * ndim)
        for values in (card.preprocessing.mean, card.preprocessing.std)
    )
    with torch.no_grad():
        expected = network((clips / 255 - mean) / std)
        torch.testing.assert_close(GraphNetwork(network, card, of)(given), expected)


def test_the_description_says_how_logits_become_probabilities() -> None:
    of = GraphInput.of(CARD, "float32")
    assert describe(CARD, of, "pt2", 7)["output"]["probabilities"] == "softmax"
    found = describe(replace(CARD, multi_label=True), of, "pt2", 7)
    assert found["output"]["probabilities"] == "sigmoid"
    assert found["input"]["shape"] == [7, 3, 2, 4, 4]
