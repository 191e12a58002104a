"""The same 2D network with a classifying layer for other classes."""

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.backbones import build
from videopipe.inflation.options import InflationError


def with_new_head(
    network: nn.Module, card: ModelCard, num_classes: int
) -> tuple[nn.Module, ModelCard, frozenset[str]]:
    """A network built for `num_classes`, all other weights copied; its card; names of new tensors.

    The builder makes the head, including its other parts (a second head, a bias).
    """
    if num_classes < 1:
        raise InflationError(f"num_classes must be at least 1, got {num_classes}")
    options = {**card.options, "num_classes": num_classes}
    fresh = build(card.architecture, **options)
    old = network.state_dict()
    of_head = _names_of_head(fresh)
    new_names = set()
    state = fresh.state_dict()
    for name, tensor in state.items():
        if name in of_head or name not in old or old[name].shape != tensor.shape:
            new_names.add(name)
        else:
            state[name] = old[name]
    fresh.load_state_dict(state)
    card = ModelCard(
        architecture=card.architecture,
        options=options,
        ndim=card.ndim,
        preprocessing=card.preprocessing,
        provenance=card.provenance,
    )
    return fresh.eval(), card, frozenset(new_names)


def _names_of_head(network: nn.Module) -> set[str]:
    head = network.head
    names = {name for name, module in network.named_modules() if module is head}
    return {
        name for name in network.state_dict() if any(name.startswith(f"{head}.") for head in names)
    }
