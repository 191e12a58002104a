import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.errors import TrainingError
from pretrained_2d.training.batches import Shares, share
from pretrained_2d.training.mixup import BatchMixing
from pretrained_2d.training.recipe import Recipe

CARD = ModelCard(architecture="x", labels=("a", "b", "c"))


@pytest.mark.parametrize(
    "settings", [{"mixup": 0.8}, {"cutmix": 1.0}, {"mixup": 0.8, "cutmix": 1.0}]
)
@pytest.mark.parametrize("parts", [2, 4])
def test_parts_are_mixed_as_the_whole_batch_would_be(settings, parts):
    mixing = BatchMixing(Recipe(seed=3, **settings), CARD, Shares())
    images, targets = torch.randn(16, 3, 8, 8), torch.randint(3, (16,))
    for step in range(4):
        mixed, shares = mixing(images.clone(), targets, step)
        for part in range(parts):
            mine = share(list(range(16)), part, parts)
            some, some_shares = mixing(images[mine].clone(), targets[mine], step)
            assert torch.equal(some, mixed[mine])
            assert torch.equal(some_shares, shares[mine])


def test_the_draw_depends_on_the_step_only():
    mixing = BatchMixing(Recipe(mixup=0.8), CARD, Shares())
    images, targets = torch.randn(4, 3, 8, 8), torch.randint(3, (4,))
    first, again = (mixing(images.clone(), targets, 7)[0] for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, mixing(images.clone(), targets, 8)[0])


def test_all_frames_of_a_clip_get_the_same_box():
    mixing = BatchMixing(Recipe(cutmix=1.0), CARD, Shares())
    clips = torch.arange(2.0).view(2, 1, 1, 1, 1).expand(2, 3, 5, 16, 16).clone()
    mixed, targets = mixing(clips, torch.tensor([0, 1]), 0)
    assert mixed.shape == clips.shape
    assert torch.equal(mixed, mixed[:, :1, :1].expand_as(mixed))
    assert 0 < mixed[0].mean() < 1, "a box of the other clip"
    assert mixed[0].mean().item() == pytest.approx(targets[0, 1].item(), abs=1e-6)


def test_odd_parts_and_missing_labels_are_refused():
    mixing = BatchMixing(Recipe(mixup=0.8), CARD, Shares(0, 2, 2))
    mixing.require_even_parts(16)
    with pytest.raises(TrainingError, match=r"batch_size is 12.*multiple of 8"):
        mixing.require_even_parts(12)
    with pytest.raises(TrainingError, match="names no labels"):
        BatchMixing(Recipe(mixup=0.8), ModelCard(architecture="x"), Shares())
