"""What is drawn for each clip: scale, crop, flip and the strength of RandAugment."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from videopipe.dataset.clips import clip_transform
from videopipe.dataset.clips.clip_transform import ClipTransform

DRAWS = 300


def coordinates(height: int, width: int, step: int = 1) -> Tensor:
    """(1, 3, height, width): `step` times the column in red, the row in green, 7 in blue."""
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    blue = torch.full_like(rows, 7)
    return torch.stack((step * columns, step * rows, blue)).byte()[None]


@pytest.mark.parametrize("flip", [0.0, 0.2, 1.0])
def test_crops_lie_anywhere_and_are_flipped_as_often_as_asked(flip: float) -> None:
    transform = ClipTransform(
        image_size=4, short_side=(8, 8), flip_probability=flip, rand_augment_layers=0
    )
    frames, tops, lefts, flips = coordinates(8, 9), set(), set(), 0
    for _ in range(DRAWS):
        (cut,) = transform(frames)
        columns, rows = cut[0].int(), cut[1].int()
        flipped = bool(columns[0, 0] > columns[0, 1])
        top, left = int(rows[0, 0]), int(columns.min())
        whole = frames[0, :, top : top + 4, left : left + 4]
        assert torch.equal(cut, whole.flip(-1) if flipped else whole)
        tops.add(top)
        lefts.add(left)
        flips += flipped
    assert (tops, lefts) == (set(range(5)), set(range(6)))
    assert flips == pytest.approx(flip * DRAWS, abs=0.08 * DRAWS * (0 < flip < 1))  # 3.5 sigma


@pytest.mark.parametrize("shape", [(16, 20), (20, 16)])
def test_every_short_side_of_the_range_is_drawn(shape: tuple[int, int]) -> None:
    transform = ClipTransform(
        image_size=8, short_side=(8, 11), flip_probability=0, rand_augment_layers=0
    )
    sides = Counter[int]()
    for _ in range(60):
        (cut,) = transform(coordinates(*shape, step=10)).float()
        slopes = cut[0].diff(dim=1)[:, 2:5].mean(), cut[1].diff(dim=0)[2:5].mean()
        along = [round(16 * 10 / float(slope)) for slope in slopes]
        assert along[0] == pytest.approx(along[1], abs=1), "both sides are scaled alike"
        sides[along[shape.index(16) ^ 1]] += 1
    assert set(sides) == {8, 9, 10, 11}


@pytest.mark.parametrize(("layers", "probability"), [(1, 0.25), (2, 0.7), (3, 1.0), (2, 0.0)])
def test_each_layer_is_applied_with_its_probability_at_a_strength_around_the_given_one(
    monkeypatch: pytest.MonkeyPatch, layers: int, probability: float
) -> None:
    made: list[dict[str, Any]] = []

    class Recorded:
        def __init__(self, **options: Any) -> None:
            made.append(options)

        def __call__(self, frames: Tensor) -> Tensor:
            return frames + 1

    monkeypatch.setattr(clip_transform, "RandAugment", Recorded)
    transform = ClipTransform(
        image_size=4, short_side=(4, 4), rand_augment_layers=layers, rand_augment_magnitude=9.0,
        rand_augment_spread=0.8, rand_augment_probability=probability,
    )  # fmt: skip
    added = sum(int(transform(coordinates(4, 4))[0, 2, 0, 0]) - 7 for _ in range(DRAWS))
    assert added == len(made)
    count = layers * DRAWS
    deviation = (probability * (1 - probability) * count) ** 0.5
    assert len(made) == pytest.approx(probability * count, abs=3.5 * deviation)
    strengths = Counter(options.pop("magnitude") for options in made)
    assert all(one == {"num_ops": 1, "num_magnitude_bins": 11, "fill": 0} for one in made)
    if made:
        assert strengths.keys() <= {6, 7, 8, 9, 10}
        assert {8, 9, 10} <= strengths.keys()
        assert strengths.most_common(1)[0][0] == 9
