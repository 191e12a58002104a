"""Every network by name: `build("convnext_tiny", mixer="s4nd", num_classes=51, ndim=3)`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from pretrained_2d.errors import PretrainedError, did_you_mean
from pretrained_2d.networks.convnext import ConvNeXt, ConvNeXtConfig
from pretrained_2d.networks.inception import Inception, InceptionConfig
from pretrained_2d.networks.isotropic import Isotropic, IsotropicConfig
from pretrained_2d.networks.libraries.timm_torchvision import build_timm, build_torchvision
from pretrained_2d.networks.libraries.transformers_video import build_transformers
from pretrained_2d.networks.vit import ViT, ViTConfig


@dataclass(frozen=True)
class Backbone:
    """A named network: its class, the dataclass of its options, and what is fixed in the name."""

    summary: str
    network: Callable[[Any], nn.Module]
    config: type[Any]
    fixed: dict[str, Any]
    ndims: tuple[int, ...]
    reference: str | None = None  # what the public S4ND code calls it


BACKBONES: dict[str, Backbone] = {
    "convnext_tiny": Backbone("ConvNeXt-T", ConvNeXt, ConvNeXtConfig, {}, (2, 3), "convnext"),
    "convnext_micro": Backbone(
        "ConvNeXt-M of the paper's Celeb-A",
        ConvNeXt,
        ConvNeXtConfig,
        {"depths": (3, 3, 3, 3), "widths": (64, 128, 256, 512)},
        (2, 3),
        "convnext",
    ),
    "vit_base": Backbone("ViT-B/16", ViT, ViTConfig, {}, (2,), "vit"),
    "isotropic": Backbone(
        "S4ND-ISO of CIFAR-10", Isotropic, IsotropicConfig, {}, (1, 2, 3), "isotropic"
    ),
    "inception": Backbone("Inception-v1 with batch norm", Inception, InceptionConfig, {}, (2, 3)),
    "inception_i3d": Backbone(
        "Inception-I3D", Inception, InceptionConfig, {"ndim": 3, "num_classes": 400}, (3,)
    ),
}
LIBRARIES: dict[str, Callable[..., nn.Module]] = {
    "timm": build_timm,
    "torchvision": build_torchvision,
    "transformers": build_transformers,
}


def build(architecture: str, **options: Any) -> nn.Module:
    """An untrained network; options are JSON and are checked against its config.

    Raises PretrainedError that names the nearest architecture or option.
    """
    library, _, name = architecture.partition("/")
    if name and library in LIBRARIES:
        return LIBRARIES[library](name, **options)
    if architecture not in BACKBONES:
        raise PretrainedError(
            f"there is no architecture {architecture!r}{did_you_mean(architecture, BACKBONES)}; "
            f"there are {', '.join(BACKBONES)}, timm/<name>, torchvision/<name> and "
            "transformers/<name>"
        )
    backbone = BACKBONES[architecture]
    known = [field.name for field in fields(backbone.config)]
    for option in options:
        if option not in known:
            raise PretrainedError(
                f"{architecture} has no option {option!r}{did_you_mean(option, known)}; it takes "
                f"{', '.join(known)}"
            )
    ndim = options.get("ndim", backbone.fixed.get("ndim", 2))
    if ndim not in backbone.ndims:
        raise PretrainedError(
            f"{architecture} takes {' or '.join(map(str, backbone.ndims))} axes, got ndim={ndim}"
        )
    try:
        return backbone.network(backbone.config(**{**backbone.fixed, **options}))
    except (TypeError, ValueError) as error:
        raise PretrainedError(f"{architecture} cannot be built: {error}") from error


def network_options(
    architecture: str, given: Mapping[str, Any], num_classes: int, image_size: int
) -> dict[str, Any]:
    """Options for `build`: those that the data decides, replaced by those that are given.

    `axis` and `time_axis` name differences from the network's defaults, not whole axes.
    """
    options: dict[str, Any] = {"num_classes": num_classes}
    defaults: dict[str, Any] = {}
    if architecture in BACKBONES:
        defaults = {
            item.name: item.default_factory()  # type: ignore[operator]
            for item in fields(BACKBONES[architecture].config)
            if item.name in ("axis", "time_axis")
        }
        options["image_size"] = image_size
    options |= given
    for name in ("axis", "time_axis"):
        if name in given and name in defaults:
            options[name] = {**defaults[name], **given[name]}
    return options
