"""Networks of timm and torchvision with the one interface: `net(signal, rate)`, `net.embed`.

Nothing is ever downloaded: weights come from checkpoints.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from pretrained_2d.errors import PretrainedError
from pretrained_2d.networks.library_options import check_library_options
from pretrained_2d.networks.mixers import Rate


class LibraryNetwork(nn.Module):
    """A network of timm or torchvision; its own parameters lie under `network.`, unchanged.

    heads: names of the classifying layers, as the library gives them. A few networks average
    several, of which the first is the main one. An encoder has none; its output is its features.
    """

    def __init__(self, network: nn.Module, heads: Sequence[str], ndim: int) -> None:
        super().__init__()
        self.network = network
        self.heads = tuple(f"network.{name}" for name in heads)
        self.ndim = ndim

    @property
    def head(self) -> nn.Module:
        """The layer that gives one number for each class; Identity for an encoder."""
        return self.get_submodule(self.heads[0]) if self.heads else nn.Identity()

    @property
    def num_features(self) -> int | None:
        """Length of `embed`'s vectors, where the library says it."""
        inner: Any = self.network
        return getattr(inner, "head_hidden_size", None) or getattr(inner, "num_features", None)

    def forward(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, *axes) -> (batch, num_classes) logits, or features; the rate is ignored."""
        return self.network(signal) if self.heads else self.embed(signal)

    def embed(self, signal: Tensor, rate: Rate = 1.0) -> Tensor:  # noqa: ARG002
        """(batch, 3, *axes) -> (batch, features): the input of the classifier.

        An encoder of timm pools by its own `forward_head(pre_logits=True)`.
        """
        if not self.heads:
            return self._pooled(signal)
        seen: list[Tensor] = []

        def remember(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen.append(inputs[0])

        with self.head.register_forward_pre_hook(remember):
            self.network(signal)
        return _one_vector(seen[0], self.head)

    def _pooled(self, signal: Tensor) -> Tensor:
        inner: Any = self.network
        if hasattr(inner, "forward_head"):
            features = inner.forward_head(inner.forward_features(signal), pre_logits=True)
        else:
            features = inner(signal)
        if not isinstance(features, Tensor) or features.ndim != 2:
            shape = tuple(features.shape) if isinstance(features, Tensor) else type(features)
            raise PretrainedError(
                f"{type(inner).__name__} gives {shape} in place of one vector per image; the option"
                " global_pool decides how it pools (avg, token, max, …)"
            )
        return features


def _one_vector(features: Tensor, head: nn.Module) -> Tensor:
    """Mean over positions where the head is applied at every position."""
    if features.ndim == 2:
        return features
    if isinstance(head, nn.Linear):
        return features.flatten(1, -2).mean(1)
    return features.flatten(2).mean(2)


def build_timm(name: str, **options: Any) -> LibraryNetwork:
    """Any timm network, untrained: `timm/resnet18`; with num_classes=0 an encoder."""
    import timm

    check_library_options(f"timm/{name}", options)
    if not timm.is_model(name):
        raise _unknown("timm", name, timm.list_models())
    arguments = _translate(
        name,
        2,
        options,
        {"drop_path": "drop_path_rate", "head_dropout": "drop_rate", "image_size": "img_size"},
    )
    try:
        network: Any = timm.create_model(name, pretrained=False, **arguments)
    except TypeError as error:
        raise PretrainedError(f"timm/{name} does not take {sorted(options)}: {error}") from error
    if network.num_classes == 0:
        return LibraryNetwork(network, (), 2)
    classifiers = network.get_classifier()
    if not isinstance(classifiers, list | tuple):
        classifiers = [classifiers]
    return LibraryNetwork(network, _heads_in(network, classifiers, f"timm/{name}"), 2)


def build_torchvision(name: str, **options: Any) -> LibraryNetwork:
    """Any torchvision classifier of images or clips, untrained: `torchvision/mc3_18`.

    With num_classes=0 the classifying layer is left out: an encoder.
    """
    from torchvision import models

    check_library_options(f"torchvision/{name}", options)
    names = models.list_models(module=models) + models.list_models(module=models.video)
    if name not in names:
        raise _unknown("torchvision", name, names)
    ndim = 3 if name in models.list_models(module=models.video) else 2
    arguments = _translate(name, ndim, options, {"head_dropout": "dropout"})
    if name in ("googlenet", "inception_v3"):  # their second heads serve training only
        arguments = {"aux_logits": False, "init_weights": False, **arguments}
    is_encoder = arguments.get("num_classes") == 0
    if is_encoder:  # torchvision would build a layer without outputs
        arguments["num_classes"] = 1
    try:
        network = models.get_model(name, weights=None, **arguments)
    except TypeError as error:
        raise PretrainedError(
            f"torchvision/{name} does not take {sorted(options)}: {error}"
        ) from error
    last = [module for module in network.modules() if _is_affine(module)][-1]
    heads = _heads_in(network, [last], f"torchvision/{name}")
    if is_encoder:
        network.set_submodule(heads[0], nn.Identity())
    return LibraryNetwork(network, () if is_encoder else heads, ndim)


def _translate(
    name: str, ndim: int, options: dict[str, Any], names: dict[str, str]
) -> dict[str, Any]:
    """Our names of options -> the library's; other names pass unchanged."""
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
        raise PretrainedError(
            f"{architecture} names no classifying layer; num_classes=0 makes it an encoder"
        )
    return heads


def _is_affine(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d)


def _unknown(library: str, name: str, names: Sequence[str]) -> PretrainedError:
    near = [f"{library}/{match}" for match in get_close_matches(name, names, 4, 0.5)]
    hint = f"; near it: {', '.join(near)}" if near else ""
    return PretrainedError(f"{library} has no classifier named {name!r}{hint}")
