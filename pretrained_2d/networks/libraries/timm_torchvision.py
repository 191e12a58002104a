"""Networks of timm and torchvision with the one interface: `net(signal, rate)`, `net.embed`.

Nothing is ever downloaded: weights come from checkpoints.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from pretrained_2d.errors import PretrainedError, did_you_mean
from pretrained_2d.networks.layers.mixers import Rate
from pretrained_2d.networks.libraries.classifying_layers import (
    classifying_layers,
    last_affine_layers,
    pooled_features,
    seen_by,
)
from pretrained_2d.networks.libraries.library_options import EPSILONS, check_library_options


class LibraryNetwork(nn.Module):
    """A network of timm or torchvision; its parameters keep their names under `network.`.

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
        """Length of `embed`'s vectors, if the library gives it."""
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
            return pooled_features(self.network, signal)
        return seen_by(self.head, self.network, signal)


def build_timm(name: str, **options: Any) -> LibraryNetwork:
    """Any timm network, untrained: `timm/resnet18`; with num_classes=0 an encoder."""
    import timm

    check_library_options(f"timm/{name}", options)
    epsilons = {key: options.pop(key) for key in EPSILONS & options.keys()}
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
    _set_epsilons(network, **epsilons)
    heads = classifying_layers(network)
    if not heads and network.num_classes != 0:
        raise PretrainedError(
            f"timm/{name} names no classifying layer; num_classes=0 makes it an encoder"
        )
    return LibraryNetwork(network, heads or (), 2)


def _set_epsilons(
    network: Any, norm_epsilon: float | None = None, head_norm_epsilon: float | None = None
) -> None:
    """Set what layer norms add to the variance; timm's builders do not take it."""
    for name, module in network.named_modules():
        epsilon = head_norm_epsilon if name == "head.norm" else norm_epsilon
        if isinstance(module, nn.LayerNorm) and epsilon is not None:
            module.eps = epsilon


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
    heads = last_affine_layers(network, [network])
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


def _unknown(library: str, name: str, names: Sequence[str]) -> PretrainedError:
    hint = did_you_mean(name, names, most=4, cutoff=0.5)
    return PretrainedError(f"{library} has no classifier named {name!r}{hint}")
