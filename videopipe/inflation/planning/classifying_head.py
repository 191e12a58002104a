"""The classifying layer of a 2D network: which one it is, and a new one for other classes."""

from typing import Any

import torch
from torch import Tensor, nn

from pretrained_2d.networks.libraries.classifying_layers import (
    classifying_layers,
    has_timm_interface,
)
from videopipe.inflation.options import InflationError
from videopipe.inflation.planning.survey import evaluating


def find_head(network: nn.Module, images: Tensor) -> str | None:
    """Name of the classifying layer; None for an encoder.

    Libraries name it. In any other network it is the linear layer or the 1×1
    convolution whose output, averaged over positions, is the output of the network.
    """
    named = classifying_layers(network)
    if named is not None:
        return named[0] if named else None
    outputs: dict[str, Tensor] = {}
    with evaluating(network), torch.no_grad():
        hooks = [
            layer.register_forward_hook(lambda _, __, out, name=name: outputs.update({name: out}))
            for name, layer in network.named_modules()
            if is_head_layer(layer)
        ]
        result = network(images)
        for hook in hooks:
            hook.remove()
    if not isinstance(result, Tensor):
        return None
    same = [name for name, output in outputs.items() if _is_source_of(result, output)]
    return same[-1] if same else None


def is_head_layer(layer: nn.Module) -> bool:
    """A linear layer or a 1×1 convolution."""
    pointwise = isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1)
    return pointwise or isinstance(layer, nn.Linear)


def _is_source_of(result: Tensor, output: Tensor) -> bool:
    if output.ndim == 4:
        output = output.mean((2, 3))
    result = result.flatten(1)
    scale = float(result.abs().max())
    return output.shape == result.shape and torch.allclose(output, result, 1e-4, 1e-5 * scale)


def check_head(network: nn.Module, name: str) -> str | None:
    """The layer that a user names; "" means that the network has none.

    Raises InflationError for a name that is not a linear layer or a 1×1 convolution.
    """
    if not name:
        return None
    layers = {each: layer for each, layer in network.named_modules() if is_head_layer(layer)}
    if name not in layers:
        raise InflationError(
            f"head={name!r} is not a linear layer or 1×1 convolution of this network; its last "
            f"ones are {', '.join(list(layers)[-4:]) or 'none'}"
        )
    return name


def give_head(network: nn.Module, num_classes: int) -> bool:
    """Give an encoder of timm a classifying layer on its own pooled features; False for others."""
    inner: Any = getattr(network, "network", network)
    if classifying_layers(network) != () or not has_timm_interface(inner):
        return False
    inner.reset_classifier(num_classes)
    heads = classifying_layers(inner) or ()
    if inner is not network:
        network.heads = tuple(f"network.{name}" for name in heads)  # type: ignore[assignment]
    return True


def check_num_classes(num_classes: int) -> None:
    """Raise InflationError unless there is at least one class."""
    if num_classes < 1:
        raise InflationError(f"num_classes must be at least 1, got {num_classes}")


def replace_head(network: nn.Module, name: str, num_classes: int) -> None:
    """A new classifying layer: truncated normal weights of 0.02, no bias at the start."""
    old = network.get_submodule(name)
    if isinstance(old, nn.Linear):
        new = linear_head(old.in_features, num_classes)
    elif isinstance(old, nn.Conv2d) and old.kernel_size == (1, 1):
        new = started_small(nn.Conv2d(old.in_channels, num_classes, 1))
    else:
        raise InflationError(f"the head {name} is a {type(old).__name__}; replace it by hand")
    like = next(old.parameters())
    parent = network.get_submodule(name.rpartition(".")[0])
    parent.add_module(name.rpartition(".")[2], new.to(like.device, like.dtype))


def linear_head(features: int, num_classes: int) -> nn.Module:
    """A linear layer on pooled features."""
    return started_small(nn.Linear(features, num_classes))


def started_small(layer: nn.Linear | nn.Conv2d) -> nn.Module:
    """The layer with truncated normal weights of 0.02 and no bias."""
    nn.init.trunc_normal_(layer.weight, std=0.02)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
