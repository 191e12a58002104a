"""Build one of our backbones again with three axes, and copy the 2D weights into it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import s4nd
from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.backbones import BACKBONES, build
from videopipe.inflation.mixing.kernel3d import inflated_weight
from videopipe.inflation.options import InflationError, InflationOptions


@dataclass(frozen=True)
class VideoNetwork:
    """An inflated network, with what its card and its report need."""

    network: nn.Module
    card: ModelCard
    way: str  # "rebuilt" or "folded"
    logits: str
    state: Mapping[str, Tensor]  # by names that resemble the 2D ones
    origin: Mapping[str, str]  # of those names -> names of 2D tensors
    layer_of: Callable[[str], str]
    parameter_free: tuple[str, ...] = ()  # new layers without tensors


def can_rebuild(card: ModelCard, options: InflationOptions) -> bool:
    """Whether the architecture itself has a third axis that does what the options ask.

    What it cannot do (other layers, pooling, kernels per channel) is done by folding.
    """
    backbone = BACKBONES.get(card.architecture)
    if backbone is None or 3 not in backbone.ndims:
        return False
    if options.layers not in ("all", "spatial>1") or options.temporal_pool:
        return False
    if options.method != "s4nd" and not options.bidirectional:
        return False
    settings = {**backbone.fixed, **card.options}
    mixer = settings.get("mixer", getattr(backbone.config(), "mixer", "conv"))
    if mixer == "s4nd":
        fits = options.method == "s4nd"
    elif card.architecture.startswith("convnext"):
        by_layer = options.method == "s3d" and options.temporal_weights == "layer"
        fits = options.method in ("i3d", "center") or by_layer
    else:
        fits = options.method in ("i3d", "center")
    return fits and _keeps_time_grid(card, options, settings)


def _keeps_time_grid(
    card: ModelCard, options: InflationOptions, settings: Mapping[str, Any]
) -> bool:
    """Isotropic and Inception networks fix their lengths along time themselves."""
    if card.architecture.startswith("convnext"):
        return options.temporal_kernel % 2 == 1 or settings.get("mixer") == "s4nd"
    if options.temporal_patch != 1:
        return False
    if card.architecture.startswith("isotropic") and settings.get("mixer", "s4nd") != "s4nd":
        return bool(options.temporal_kernel == settings.get("kernel", 3))
    return True


def rebuild(network: nn.Module, card: ModelCard, options: InflationOptions) -> VideoNetwork:
    """The 3D network with the 2D weights: kernels repeated or centred, S4ND axes as they are."""
    video_card = _video_card(card, options)
    video = build(video_card.architecture, **{"ndim": 3, **video_card.options})
    origin = _transfer(network, video, options)
    return VideoNetwork(
        video.eval(),
        video_card,
        way="rebuilt",
        logits="the head of the features averaged over time and space",
        state=video.state_dict(),
        origin=origin,
        layer_of=_layer_of,
    )


def _layer_of(name: str) -> str:
    """The layer of a tensor; all axes of an S4ND layer belong to one layer."""
    layer, axes, _ = name.partition(".spaces.")
    return layer if axes else name.rpartition(".")[0]


def _video_card(card: ModelCard, options: InflationOptions) -> ModelCard:
    known = set(BACKBONES[card.architecture].config.__dataclass_fields__)
    wanted: dict[str, Any] = {
        **card.options,
        "ndim": 3,
        "num_frames": options.num_frames,
        "temporal_patch": options.temporal_patch,
        "temporal_kernel": options.temporal_kernel,
        "temporal_padding": options.padding,
    }
    if options.method == "s3d":
        wanted["mixer"] = "separable"
    if options.method == "s4nd":
        wanted["time_axis"] = wanted["stem_time_axis"] = _time_axis(options)
        wanted.pop("temporal_padding")
    return replace(
        card,
        architecture="inception_i3d" if card.architecture == "inception" else card.architecture,
        options={name: value for name, value in wanted.items() if name in known},
        ndim=3,
        num_frames=options.num_frames,
        clip_seconds=options.clip_seconds,
    )


def _time_axis(options: InflationOptions) -> dict[str, Any]:
    return {
        "state": options.state,
        "basis": options.basis,
        "bidirectional": options.bidirectional,
        "length": options.length,
        "copies": "channels" if options.copies is None else options.copies,
        "start": options.start,
        "padding": options.padding,
    }


@torch.no_grad()
def _transfer(network: nn.Module, video: nn.Module, options: InflationOptions) -> dict[str, str]:
    """Fill the 3D network; returns which 2D tensor each of its tensors came from."""
    source, target = network.state_dict(), video.state_dict()
    origin = {}
    for name in target:
        old = _name_in_2d(name, network, video)
        if old is None or old not in source:
            continue
        target[name].copy_(_grown(source[old], target[name], name, video, options))
        origin[name] = old
    lost = source.keys() - set(origin.values())
    if lost:
        raise InflationError(f"the 3D network has no place for {', '.join(sorted(lost))}")
    return origin


def _name_in_2d(name: str, network: nn.Module, video: nn.Module) -> str | None:
    """The same name, but S4ND has its time axis in front: axis 1 of 3 was axis 0 of 2."""
    layer, found, rest = name.partition(".spaces.")
    if not found or not isinstance(video.get_submodule(layer), s4nd.S4ND):
        return name
    index, _, parameter = rest.partition(".")
    grown = video.get_submodule(layer)
    flat = network.get_submodule(layer)
    assert isinstance(grown, s4nd.S4ND)
    assert isinstance(flat, s4nd.S4ND)
    if len(grown.axes) == len(flat.axes):
        return name
    return None if index == "0" else f"{layer}.spaces.{int(index) - 1}.{parameter}"


def _grown(
    source: Tensor, target: Tensor, name: str, video: nn.Module, options: InflationOptions
) -> Tensor:
    if source.shape == target.shape:
        return source
    if source.ndim != 4 or target.ndim != 5:
        raise InflationError(
            f"{name} cannot be inflated from {tuple(source.shape)} to {tuple(target.shape)}"
        )
    layer = video.get_submodule(name.rpartition(".")[0])
    is_patch = getattr(layer, "stride", (1,))[0] == target.shape[2] > 1
    length = target.shape[2]
    only = (length - 1) // 2 if options.method == "center" and not is_patch else None
    return inflated_weight(source, 2, length, options.scale == "length", only=only)
