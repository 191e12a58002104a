import math

import pytest
import torch
from timm.loss import SoftTargetCrossEntropy

from pretrained_2d.training.objective import BinaryCrossEntropy, CrossEntropy, collate


def test_shares_give_the_same_loss_as_timm():
    logits, shares = torch.randn(6, 5), torch.rand(6, 5).softmax(1)
    assert torch.allclose(
        CrossEntropy().loss(logits, shares).mean(), SoftTargetCrossEntropy()(logits, shares)
    )


def test_smoothing_of_classes_and_of_their_shares_agree():
    logits, classes = torch.randn(6, 5), torch.randint(5, (6,))
    shares = torch.nn.functional.one_hot(classes, 5).float()
    smooth = CrossEntropy(label_smoothing=0.1)
    assert torch.allclose(smooth.loss(logits, classes), smooth.loss(logits, shares), atol=1e-6)


def test_a_mixed_sample_counts_for_its_larger_part():
    logits = torch.tensor([[0.0, 2.0, 1.0]])
    assert CrossEntropy().correct(logits, torch.tensor([[0.3, 0.7, 0.0]])).tolist() == [1.0]
    assert CrossEntropy().correct(logits, torch.tensor([0])).tolist() == [0.0]


def test_binary_accuracy_is_the_share_of_right_attributes():
    logits = torch.tensor([[1.0, -1.0, 0.0, -2.0]])
    targets = torch.tensor([[1, 1, 1, 0]])
    assert BinaryCrossEntropy().correct(logits, targets).tolist() == [0.75]
    at_zero = BinaryCrossEntropy().loss(torch.zeros(1, 4), targets)
    assert at_zero.item() == pytest.approx(math.log(2))


def test_binary_smoothing_moves_every_target_towards_a_half():
    """One entry at a time, by the definition of cross entropy."""
    logits, targets = torch.randn(3, 4), torch.randint(2, (3, 4))
    expected = []
    for row, wanted in zip(logits.tolist(), targets.tolist(), strict=True):
        total = 0.0
        for logit, target in zip(row, wanted, strict=True):
            share = {0: 0.1, 1: 0.9}[target]
            chance = 1 / (1 + math.exp(-logit))
            total -= share * math.log(chance) + (1 - share) * math.log(1 - chance)
        expected.append(total / 4)
    found = BinaryCrossEntropy(label_smoothing=0.2).loss(logits, targets)
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


def test_collate_stacks_numbers_and_rows():
    signals, targets = collate([(torch.zeros(3, 2, 2), 1), (torch.ones(3, 2, 2), 2)])
    assert signals.shape == (2, 3, 2, 2)
    assert targets.tolist() == [1, 2]
    rows = collate([(torch.zeros(1), torch.tensor([0, 1]))])[1]
    assert rows.tolist() == [[0, 1]]
