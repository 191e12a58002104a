"""Loading any checkpoint folder: images or clips, rebuilt in 3D or folded."""

from pathlib import Path

from torch import nn

from pretrained_2d.backbones import build
from pretrained_2d.card import ModelCard
from pretrained_2d.checkpoint import build_from_card, load_checkpoint


def load_model(folder: Path | str) -> tuple[nn.Module, ModelCard]:
    """The model, in eval mode on the CPU, and its card.

    Raises CheckpointError that names the file and the remedy.
    """
    return load_checkpoint(Path(folder), build=build_any)


def build_any(card: ModelCard) -> nn.Module:
    """The untrained network of any card, also of a 2D network that was inflated by folding."""
    if card.inflation is None:
        return build_from_card(card)
    from videopipe.inflation.folded import FoldedNetwork
    from videopipe.inflation.plan import Plan

    network = build(card.architecture, **card.options)
    return FoldedNetwork(network, Plan.from_json(card.inflation))
