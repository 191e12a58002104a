"""The same network with a classifying layer for other classes."""

from dataclasses import replace

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.fitting import load_tensors
from videopipe.inflation.planning.classifying_head import check_num_classes
from videopipe.models import build_any, num_outputs


def with_new_head(
    network: nn.Module, card: ModelCard, num_classes: int, labels: tuple[str, ...] | None = None
) -> tuple[nn.Module, ModelCard, frozenset[str]]:
    """A network built for `num_classes`, all other weights copied; its card; names of new tensors.

    The builder makes the head, including its other parts (a second head, a bias).
    """
    check_num_classes(num_classes)
    options = {**card.options, "num_classes": num_classes}
    if card.architecture.startswith("transformers/") and num_outputs(network) == 0:
        options["pooled_head"] = True
    card = replace(card, options=options, labels=labels, multi_label=False)
    fresh = build_any(card)
    old, state = network.state_dict(), fresh.state_dict()
    of_head = _names_of_head(fresh)
    kept = {
        name: old[name]
        for name, tensor in state.items()
        if name not in of_head and name in old and old[name].shape == tensor.shape
    }
    load_tensors(fresh, {**state, **kept})
    return fresh.eval(), card, frozenset(state.keys() - kept.keys())


def _names_of_head(network: nn.Module) -> set[str]:
    head = network.head
    names = {name for name, module in network.named_modules() if module is head}
    return {
        name for name in network.state_dict() if any(name.startswith(f"{head}.") for head in names)
    }
