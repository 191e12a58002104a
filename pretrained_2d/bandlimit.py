"""Changing the bandlimit of a whole network while it trains, and saying so in its card."""

from dataclasses import replace

from torch import nn

from pretrained_2d.backbones import BACKBONES
from pretrained_2d.card import ModelCard
from pretrained_2d.network_options import network_options
from s4nd import S4ND


def set_bandlimit(model: nn.Module, bandlimit: float | None) -> None:
    """Give every S4ND layer inside the same bandlimit on all axes."""
    for module in model.modules():
        if isinstance(module, S4ND):
            module.bandlimit = bandlimit


def with_bandlimit(card: ModelCard, bandlimit: float | None) -> ModelCard:
    """The card of a network whose bandlimit was changed by `set_bandlimit`."""
    if card.architecture not in BACKBONES:
        return card
    axis = network_options(card.architecture, {"axis": {}, **card.options}, 0, 0)["axis"]
    return replace(card, options={**card.options, "axis": {**axis, "bandlimit": bandlimit}})
