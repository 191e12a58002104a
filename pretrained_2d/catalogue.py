"""List the available networks with their number of parameters and input size."""

from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any, NamedTuple

import torch
from torch import nn

from pretrained_2d.errors import PretrainedError
from pretrained_2d.networks.backbones import BACKBONES, build

# The forms of the paper's tables, beside the plain one.
FORMS: dict[str, list[dict[str, Any]]] = {
    "convnext_tiny": [
        {},
        {"mixer": "s4nd"},
        {"ndim": 3},
        {"ndim": 3, "mixer": "separable"},
        {"ndim": 3, "mixer": "s4nd"},
    ],
    "convnext_micro": [{}, {"mixer": "s4nd", "stem": "s4nd", "downsample": "s4nd"}],
    "vit_base": [{}, {"mixer": "s4nd"}],
    "isotropic": [{}, {"mixer": "conv"}],
}


class NetworkEntry(NamedTuple):
    """One form of a network, with its default number of classes."""

    name: str
    options: dict[str, Any]
    ndim: int
    parameters: int
    input_size: tuple[int, ...]  # (height, width) or (time, height, width)
    summary: str


def our_networks() -> Iterator[NetworkEntry]:
    """Every backbone of this package, in the forms of the paper."""
    for name, backbone in BACKBONES.items():
        for options in FORMS.get(name, [{}]):
            network: Any = _outline(name, options)
            size = network.config.input_size
            yield NetworkEntry(name, options, network.ndim, _count(network), size, backbone.summary)


def library_sizes() -> dict[str, int]:
    """How many classifiers timm and torchvision have."""
    return {library: len(list(names)) for library, names in _library_names().items()}


def matching_networks(pattern: str) -> Iterator[NetworkEntry]:
    """Networks of all sources whose name matches a pattern such as `timm/resnet*`."""
    yield from (entry for entry in our_networks() if fnmatch(entry.name, pattern))
    for library, names in _library_names().items():
        for name in names:
            if fnmatch(f"{library}/{name}", pattern):
                yield _library_entry(library, name)


def _library_names() -> dict[str, list[str]]:
    import timm
    from torchvision import models

    torchvision = models.list_models(module=models) + models.list_models(module=models.video)
    return {"timm": timm.list_models(), "torchvision": torchvision}


def _library_entry(library: str, name: str) -> NetworkEntry:
    from pretrained_2d.checkpoints.foreign.preprocessing import default_inputs

    architecture = f"{library}/{name}"
    try:
        network: Any = _outline(architecture, {})
    except (PretrainedError, RuntimeError, NotImplementedError) as error:
        return NetworkEntry(architecture, {}, 2, 0, (), f"cannot be used: {error}")
    default = default_inputs(architecture, network, "")
    size = (default.preprocessing.image_size,) * 2
    frames = (default.num_frames,) if default.num_frames else ()
    return NetworkEntry(architecture, {}, network.ndim, _count(network), (*frames, *size), "")


def _outline(architecture: str, options: dict[str, Any]) -> nn.Module:
    """The network without memory for its weights, which is quick to build."""
    with torch.device("meta"):
        return build(architecture, **options)


def _count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
