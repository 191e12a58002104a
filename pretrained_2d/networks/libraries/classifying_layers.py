"""The classifying layers and the pooled features of a network, as its own library names them."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from pretrained_2d.errors import PretrainedError

# Where torchvision's classifiers keep their last layers.
_TORCHVISION_NAMES = ("fc", "classifier", "heads", "head")


def classifying_layers(network: nn.Module) -> tuple[str, ...] | None:
    """Names of the layers that give one number for each class, the main one first.

    Empty for an encoder, None for a network whose interface does not give them. Networks of this
    package, timm and torchvision do.
    """
    inner: Any = network
    if isinstance(getattr(inner, "heads", None), tuple):  # a LibraryNetwork
        return tuple(inner.heads)
    if has_timm_interface(network):
        return _of_timm(inner)
    if type(network).__module__.startswith("torchvision.models."):
        name = next((name for name in _TORCHVISION_NAMES if hasattr(inner, name)), None)
        return None if name is None else last_affine_layers(network, [getattr(inner, name)])
    if callable(getattr(inner, "embed", None)) and isinstance(
        getattr(inner, "head", None), nn.Module
    ):
        return last_affine_layers(network, [inner.head])
    return None


def has_timm_interface(network: nn.Module) -> bool:
    """Whether a network has the methods of timm's networks that are used here."""
    names = ("forward_features", "forward_head", "get_classifier", "num_classes")
    return all(hasattr(network, name) for name in names)


def _of_timm(network: Any) -> tuple[str, ...]:
    if network.num_classes == 0:
        return ()
    classifiers = network.get_classifier()
    if not isinstance(classifiers, list | tuple):
        classifiers = [classifiers]
    return last_affine_layers(network, classifiers)


def last_affine_layers(network: nn.Module, classifiers: Sequence[nn.Module]) -> tuple[str, ...]:
    """Names of the last affine layer of every classifier, which may have layers before it."""
    names = {module: name for name, module in network.named_modules()}
    heads = []
    for classifier in classifiers:
        parts = list(classifier) if isinstance(classifier, nn.ModuleList) else [classifier]
        for part in parts:
            affine = [module for module in part.modules() if is_affine(module)]
            heads += [names[affine[-1]]] if affine else []
    return tuple(heads)


def is_affine(module: nn.Module) -> bool:
    """A linear layer or a convolution."""
    return isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d)


def seen_by(head: nn.Module, network: nn.Module, signal: Tensor) -> Tensor:
    """The features (batch, features) that reach the classifying layer when the network runs.

    The mean over positions where the layer is applied at every position.
    """
    seen: list[Tensor] = []

    def remember(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.append(inputs[0])

    with head.register_forward_pre_hook(remember):
        network(signal)
    features = seen[0]
    if features.ndim == 2:
        return features
    if isinstance(head, nn.Linear):
        return features.flatten(1, -2).mean(1)
    return features.flatten(2).mean(2)


def pooled_features(network: nn.Module, signal: Tensor) -> Tensor:
    """The features (batch, features) of an encoder.

    timm's networks pool by `forward_head(pre_logits=True)`, others by themselves. Raises
    PretrainedError when that is not one vector per image.
    """
    inner: Any = network
    if has_timm_interface(network):
        features = inner.forward_head(inner.forward_features(signal), pre_logits=True)
    else:
        features = inner(signal)
    if not isinstance(features, Tensor) or features.ndim != 2:
        shape = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        remedy = "wrap it in a module that pools"
        if hasattr(inner, "global_pool"):
            remedy = "the option global_pool decides how it pools (avg, token, max, …)"
        raise PretrainedError(
            f"{type(inner).__name__} gives {shape} in place of one vector per image; {remedy}"
        )
    return features
