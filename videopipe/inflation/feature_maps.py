"""Feature maps of a 2D network at several strides, as timm's `features_only` gives them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from videopipe.inflation.options import InflationError


@dataclass(frozen=True)
class FeatureLevel:
    """One resolution of a network: the module that outputs its maps, their channels and stride."""

    name: str
    channels: int
    stride: int  # pixels of the input per position, in height and width


def feature_levels(network: nn.Module) -> tuple[FeatureLevel, ...]:
    """The levels that timm names for the network, from fine to coarse; empty for other networks."""
    found = getattr(_library_network(network), "feature_info", None)
    entries = getattr(found, "info", found) or ()
    return tuple(
        FeatureLevel(str(entry["module"]), int(entry["num_chs"]), int(entry["reduction"]))
        for entry in entries
    )


def feature_maps(
    network: nn.Module, frames: Tensor, names: Sequence[str | int] | None
) -> list[Tensor]:
    """(frames, channels, height, width) maps of the named levels, or of all levels of timm.

    names: names or numbers of levels, or names of any modules that give maps with their channels
    first. Raises InflationError that lists the levels.
    """
    levels = feature_levels(network)
    if names is None:
        names = range(len(levels))
        if not levels:
            raise InflationError(
                f"{type(_library_network(network)).__name__} does not name its feature levels; "
                "give names of modules, such as features(clip, ['layer1', 'layer2'])"
            )
    indices = [_index(name, levels) for name in names]
    inner = _library_network(network)
    known = [index for index in indices if index is not None]
    if len(known) == len(indices) and hasattr(inner, "forward_intermediates"):
        order = sorted(set(known))
        maps = inner.forward_intermediates(
            frames, indices=order, output_fmt="NCHW", intermediates_only=True
        )
        found = dict(zip(order, maps, strict=True))
        return [found[index] for index in known]
    wanted = [
        str(name) if index is None else levels[index].name
        for name, index in zip(names, indices, strict=True)
    ]
    channels = [None if index is None else levels[index].channels for index in indices]
    outputs = _outputs_of(inner, wanted, frames, levels)
    return [
        _channels_first(name, outputs[name], count)
        for name, count in zip(wanted, channels, strict=True)
    ]


def _library_network(network: nn.Module) -> Any:
    """The network inside a LibraryNetwork, or the network itself."""
    return network.network if isinstance(getattr(network, "heads", None), tuple) else network


def _index(name: str | int, levels: Sequence[FeatureLevel]) -> int | None:
    """Number of a level; None for the name of another module."""
    if isinstance(name, int):
        if not -len(levels) <= name < len(levels):
            raise InflationError(f"there is no feature level {name}; {_listed(levels)}")
        return name % len(levels)
    return next((i for i, level in enumerate(levels) if level.name == name), None)


def _outputs_of(
    network: nn.Module, names: Sequence[str], frames: Tensor, levels: Sequence[FeatureLevel]
) -> dict[str, Tensor]:
    """The outputs of the named modules during one forward pass."""
    info: Any = getattr(network, "feature_info", None) or ()
    before = {entry["module"] for entry in info if entry.get("hook_type") == "forward_pre"}
    outputs: dict[str, Any] = {}
    hooks = []
    modules = dict(network.named_modules())
    flattened = {name.replace(".", "_"): module for name, module in modules.items()}
    try:
        for name in names:
            module = modules.get(name) or flattened.get(name)
            if module is None:
                raise InflationError(f"the network has no module {name!r}; {_listed(levels)}")
            keep = partial(_keep, outputs, name)
            if name in before:
                hooks.append(module.register_forward_pre_hook(keep))
            else:
                hooks.append(module.register_forward_hook(keep))
        network(frames)
    finally:
        for hook in hooks:
            hook.remove()
    return outputs


def _keep(outputs: dict[str, Any], name: str, _: nn.Module, inputs: Any, *output: Any) -> None:
    """A hook that stores the output of a module, or its input before it runs."""
    outputs.setdefault(name, output[0] if output else inputs[0])


def _channels_first(name: str, output: Any, channels: int | None) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim != 4:
        shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise InflationError(
            f"{name} gives {shape}, not maps of shape (images, channels, height, width); "
            "choose a module that gives maps"
        )
    if channels is not None and output.shape[1] != channels and output.shape[3] == channels:
        return output.permute(0, 3, 1, 2)
    return output


def _listed(levels: Sequence[FeatureLevel]) -> str:
    if not levels:
        return "print the network to see the names of its modules"
    return "its levels are " + ", ".join(
        f"{level.name} ({level.channels} channels, stride {level.stride})" for level in levels
    )
