"""Stochastic depth and head dropout of a network that is already built."""

from functools import partial
from typing import Any

from timm.layers.drop import DropPath as TimmDropPath
from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.networks.layers.blocks import DropPath, drop_path_rates


def set_drop_path(model: nn.Module, highest: float) -> int:
    """Drop residual branches, linearly more from input to output; returns how many can be dropped.

    A network without such branches (most convolutional ones) is unchanged.
    """
    branches = [m for m in model.modules() if isinstance(m, DropPath | TimmDropPath)]
    for branch, rate in zip(branches, drop_path_rates(highest, len(branches)), strict=True):
        setattr(branch, "rate" if isinstance(branch, DropPath) else "drop_prob", rate)
    return len(branches)


def set_head_dropout(model: nn.Module, rate: float) -> None:
    """Set the dropout before the classifier: the network's own layer if it has one, else a hook."""
    own = getattr(model, "dropout", None)
    if isinstance(own, nn.Dropout):
        own.p = rate
    elif rate:
        head = model.head
        assert isinstance(head, nn.Module)
        head.register_forward_pre_hook(partial(_drop_inputs, rate=rate))


def _drop_inputs(head: nn.Module, inputs: tuple[Tensor, ...], *, rate: float) -> Any:
    first, *rest = inputs
    return (functional.dropout(first, rate, training=head.training), *rest)
