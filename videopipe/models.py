"""Loading any checkpoint folder: images or clips, rebuilt in 3D, folded or probed."""

from pathlib import Path

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import build_from_card, load_checkpoint
from pretrained_2d.networks.backbones import build


def load_model(folder: Path | str) -> tuple[nn.Module, ModelCard]:
    """The model, in eval mode on the CPU, and its card.

    Raises CheckpointError that names the file and the remedy.
    """
    return load_checkpoint(Path(folder), build=build_any)


def build_any(card: ModelCard) -> nn.Module:
    """The untrained network of any card, also of a network inflated by folding or probed."""
    if card.probe is not None:
        from videopipe.probing.network import build_probed

        return build_probed(card)
    if card.inflation is None:
        return build_from_card(card)
    from videopipe.inflation.folded import FoldedNetwork
    from videopipe.inflation.layer_plan import InflationPlan

    network = build(card.architecture, **card.options)
    return FoldedNetwork(network, InflationPlan.from_json(card.inflation))


def num_outputs(model: nn.Module) -> int:
    """The number of classes of the head; 0 for an encoder."""
    head = model.head
    assert isinstance(head, nn.Module)
    return max((len(parameter) for parameter in head.parameters()), default=0)
