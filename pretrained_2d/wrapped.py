"""Networks of timm and torchvision with the one interface: `net(signal, rate)`, `net.embed`.

Nothing is ever downloaded: weights come from checkpoints.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from pretrained_2d.errors import PretrainedError
from pretrained_2d.mixers import Rate


class WrappedClassifier(nn.Module):
    """A foreign classifier; its own parameters lie under `network.`, unchanged.

    heads: names of the layers that give one number for each class. A few networks average several;
    the first is the main one.
    """

    def __init__(self, network: nn.Module, heads: Sequence[str], ndim: int) -> None:
        super().__init__()
        self.network = network
        self.heads = tuple(f"network.{name}" for name in heads)
        self.ndim = ndim

    @property
    def head(self) -> nn.Module:
        """The layer that gives one number for each class."""
        return self.get_submodule(self.heads[0])

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, *axes) -> (batch, num_classes) logits; the rate means nothing to taps."""
        return self.network(signal)

    def embed(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, *axes) -> (batch, features), what the classifier sees."""
        seen: list[Tensor] = []

        def remember(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen.append(inputs[0])

        with self.head.register_forward_pre_hook(remember):
            self.network(signal)
        return _one_vector(seen[0], self.head)


def _one_vector(features: Tensor, head: nn.Module) -> Tensor:
    """Mean over positions where the head is applied at every position."""
    if features.ndim == 2:
        return features
    if isinstance(head, nn.Linear):
        return features.flatten(1, -2).mean(1)
    return features.flatten(2).mean(2)


def build_timm(name: str, **options: Any) -> WrappedClassifier:
    """Any timm classifier, untrained: `timm/resnet18`."""
    import timm

    if not timm.is_model(name):
        raise _unknown("timm", name, timm.list_models())
    arguments = _translate(
        name,
        2,
        options,
        {"drop_path": "drop_path_rate", "head_dropout": "drop_rate", "image_size": "img_size"},
    )
    try:
        network = timm.create_model(name, pretrained=False, **arguments)
    except TypeError as error:
        raise PretrainedError(f"timm/{name} does not take {sorted(options)}: {error}") from error
    classifiers = network.get_classifier()  # type: ignore[operator]
    if not isinstance(classifiers, list | tuple):
        classifiers = [classifiers]
    return WrappedClassifier(network, _heads_in(network, classifiers, f"timm/{name}"), 2)


def build_torchvision(name: str, **options: Any) -> WrappedClassifier:
    """Any torchvision classifier of images or clips, untrained: `torchvision/mc3_18`."""
    from torchvision import models

    names = models.list_models(module=models) + models.list_models(module=models.video)
    if name not in names:
        raise _unknown("torchvision", name, names)
    ndim = 3 if name in models.list_models(module=models.video) else 2
    arguments = _translate(name, ndim, options, {"head_dropout": "dropout"})
    if name in ("googlenet", "inception_v3"):  # their second heads serve training only
        arguments = {"aux_logits": False, "init_weights": False, **arguments}
    try:
        network = models.get_model(name, weights=None, **arguments)
    except TypeError as error:
        raise PretrainedError(
            f"torchvision/{name} does not take {sorted(options)}: {error}"
        ) from error
    last = [module for module in network.modules() if _is_affine(module)][-1]
    return WrappedClassifier(network, _heads_in(network, [last], f"torchvision/{name}"), ndim)


def _translate(
    name: str, ndim: int, options: dict[str, Any], names: dict[str, str]
) -> dict[str, Any]:
    """Our names of options -> the library's; what is not ours goes through as it is."""
    options = {key: value for key, value in options.items() if value is not None}
    if options.pop("ndim", ndim) != ndim:
        raise PretrainedError(f"{name} has {ndim} axes; networks of images gain time by inflation")
    return {names.get(key, key): value for key, value in options.items()}


def _heads_in(network: nn.Module, classifiers: Sequence[nn.Module], architecture: str) -> list[str]:
    """Names of the last affine layer of every classifier, which may have layers before it."""
    names = {module: name for name, module in network.named_modules()}
    heads = []
    for classifier in classifiers:
        parts = list(classifier) if isinstance(classifier, nn.ModuleList) else [classifier]
        for part in parts:
            affine = [module for module in part.modules() if _is_affine(module)]
            heads += [names[affine[-1]]] if affine else []
    if not heads:
        raise PretrainedError(f"{architecture} has no classifying layer: it gives features only")
    return heads


def _is_affine(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d)


def _unknown(library: str, name: str, names: Sequence[str]) -> PretrainedError:
    near = [f"{library}/{match}" for match in get_close_matches(name, names, 4, 0.5)]
    hint = f"; near it: {', '.join(near)}" if near else ""
    return PretrainedError(f"{library} has no classifier named {name!r}{hint}")
