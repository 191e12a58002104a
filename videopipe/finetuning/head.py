"""Fit the head of a network to the classes of a data set."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.randomness import seeded
from videopipe.inflation.new_head import with_new_head
from videopipe.models import num_outputs


def with_head_for(
    model: nn.Module, card: ModelCard, labels: Sequence[str], seed: int
) -> tuple[nn.Module, ModelCard, bool]:
    """The network and its card for `labels`, and whether the head is new.

    The head is kept if it has one output per label and no other names for them.
    """
    labels = tuple(labels)
    if card.labels == labels or (card.labels is None and num_outputs(model) == len(labels)):
        return model, replace(card, labels=labels), False
    with seeded("head", seed):
        fresh, card, _ = with_new_head(model, card, len(labels), labels)
        _start_small(fresh.head)
    return fresh, card, True


@torch.no_grad()
def _start_small(head: object) -> None:
    """Truncated normal weights of 0.02, no bias, as in the paper.

    Some libraries initialise a head of few classes with large weights, whose first gradients damage
    the features.
    """
    assert isinstance(head, nn.Module)
    for parameter in head.parameters():
        if parameter.ndim > 1:
            nn.init.trunc_normal_(parameter, std=0.02)
        else:
            nn.init.zeros_(parameter)


def head_parameters(model: nn.Module) -> set[str]:
    """Names of the parameters of the classifying layer."""
    head = model.head
    assert isinstance(head, nn.Module)
    own = {id(parameter) for parameter in head.parameters()}
    return {name for name, parameter in model.named_parameters() if id(parameter) in own}
