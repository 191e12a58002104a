"""Fit the head of a network to the classes of a data set."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.fitting import load_tensors
from pretrained_2d.randomness import seeded
from videopipe.models import build_any, num_outputs


def with_head_for(
    model: nn.Module, card: ModelCard, labels: Sequence[str], seed: int
) -> tuple[nn.Module, ModelCard, bool]:
    """The network and its card for `labels`, and whether the head is new.

    The head is kept if it has one output per label and no other names for them.
    """
    labels = tuple(labels)
    if card.labels == labels or (card.labels is None and num_outputs(model) == len(labels)):
        return model, replace(card, labels=labels), False
    options = {**card.options, "num_classes": len(labels)}
    if card.architecture.startswith("transformers/") and num_outputs(model) == 0:
        options["pooled_head"] = True
    card = replace(card, labels=labels, options=options)
    with seeded("head", seed):
        fresh = build_any(card)
        _start_small(fresh.head)
    head = head_parameters(fresh)
    state = fresh.state_dict()
    old = model.state_dict()
    kept = {n: old[n] for n in state if n not in head and old[n].shape == state[n].shape}
    load_tensors(fresh, {**state, **kept})
    return fresh.eval(), card, True


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
