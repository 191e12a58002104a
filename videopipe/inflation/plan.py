"""Which layers of a 2D network mix time, and how, as plain JSON that rebuilds the network."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from torch import nn

from videopipe.errors import VideopipeError
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.survey import Seen, survey


class InflationError(VideopipeError, ValueError):
    """A network cannot be inflated as asked."""


@dataclass(frozen=True)
class PlannedLayer:
    """One layer that changes: it gets a kernel along time, takes several frames, or is pooled."""

    name: str
    role: Literal["kernel", "mixing", "patch", "pool"]
    channels: int
    channel_dim: int  # of its folded output
    reduction: int  # steps behind the first layer ÷ steps here


@dataclass(frozen=True)
class Plan:
    """Everything that turns a 2D network into its folded form."""

    options: InflationOptions
    layers: tuple[PlannedLayer, ...]
    in_channels: int
    head: str | None  # name of the classifying layer

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` reads it back."""
        return {"version": 1, **asdict(self)}

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "Plan":
        """The plan that `to_json` wrote.

        Raises InflationError for what it did not write.
        """
        if content.get("version") != 1:
            raise InflationError(
                f"the inflation in this checkpoint has version {content.get('version')!r}, this "
                "program reads 1: update videopipe, or inflate again"
            )
        try:
            options = dict(content["options"])
            options["temporal_pool"] = tuple(options.get("temporal_pool", ()))
            return Plan(
                InflationOptions(**options),
                tuple(PlannedLayer(**layer) for layer in content["layers"]),
                content["in_channels"],
                content["head"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InflationError(f"the inflation in this checkpoint is damaged: {error}") from error


def make_plan(network: nn.Module, options: InflationOptions, image_size: int) -> Plan:
    """Look at the network in a trial run and choose its layers.

    Raises InflationError when nothing matches or the network does not run on such images.
    """
    in_channels = input_channels(network)
    try:
        seen = survey(network, image_size, in_channels)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        raise InflationError(
            f"the 2D network does not run on images of {in_channels}×{image_size}×{image_size}: "
            f"{error}; give the image size it was trained for"
        ) from error
    pools = _pools(seen, options)
    layers = [] if options.method == "none" else _mixing_layers(network, seen, options, pools)
    if options.temporal_patch > 1:
        layers = _with_patch(network, seen, layers)
    layers += [
        PlannedLayer(pool.name, "pool", pool.channels, pool.channel_dim, _reduction(pool, pools))
        for pool in pools
    ]
    return Plan(options, tuple(layers), in_channels, _head(network, seen))


def input_channels(network: nn.Module) -> int:
    """Channels the first layer takes: 3 unless the network's first convolution says otherwise."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            return module.in_channels if module.in_channels <= 4 else 3
    return 3


def _mixing_layers(
    network: nn.Module, seen: Mapping[str, Seen], options: InflationOptions, pools: Sequence[Seen]
) -> list[PlannedLayer]:
    candidates = [
        layer
        for name, layer in seen.items()
        if name and layer.kind != "block" and len(layer.output_shape) > 2
    ]
    wanted = _selection(options.layers)
    chosen = [
        layer
        for layer in candidates
        if wanted(layer, network.get_submodule(layer.name)) and layer.by_frame
    ]
    if not chosen:
        raise InflationError(_nothing_chosen(options.layers, candidates))
    mixers = [layer.name for layer in chosen if layer.kind == "mixer"]
    outermost = [
        layer for layer in chosen if not any(layer.name.startswith(f"{mixer}.") for mixer in mixers)
    ]
    return [
        PlannedLayer(
            layer.name,
            _role(network.get_submodule(layer.name), layer, options),
            layer.channels,
            layer.channel_dim,
            _reduction(layer, pools),
        )
        for layer in sorted(outermost, key=lambda layer: layer.began)
    ]


def _role(module: nn.Module, seen: Seen, options: InflationOptions) -> Literal["kernel", "mixing"]:
    """Only a convolution with a plain weight can have a 3D kernel; others are mixed afterwards."""
    plain = isinstance(module._parameters.get("weight"), nn.Parameter)
    bias = module._parameters.get("bias")
    plain = plain and (bias is None or bias.ndim == 1)
    three_dimensional = options.method in ("i3d", "center") and seen.kind == "convolution"
    return "kernel" if three_dimensional and plain else "mixing"


def _selection(layers: str) -> Callable[[Seen, nn.Module], bool]:
    """`all`, `depthwise`, `spatial>1`, a glob, or `re:` and a regular expression."""
    if layers == "all":
        return lambda *_: True
    if layers == "depthwise":
        return _is_depthwise
    if layers == "spatial>1":
        return lambda seen, module: seen.kind == "mixer" or _extent(module) > 1
    matches = _name_pattern(layers)
    return lambda seen, _: matches(seen.name)


def _name_pattern(pattern: str) -> Callable[[str], bool]:
    """A glob over the whole name, or `re:` and a regular expression found anywhere in it."""
    if not pattern.startswith("re:"):
        return lambda name: fnmatchcase(name, pattern)
    try:
        expression = re.compile(pattern[3:])
    except re.error as error:
        raise InflationError(f"{pattern[3:]!r} is not a regular expression ({error})") from error
    return lambda name: bool(expression.search(name))


def _extent(module: nn.Module) -> int:
    """Largest side of a convolution's kernel, in pixels."""
    size = getattr(module, "kernel_size", None)
    if size is None:
        size = module.weight.shape[2:]  # type: ignore[index]
    return max(size) if isinstance(size, Sequence) else int(size)


def _is_depthwise(seen: Seen, module: nn.Module) -> bool:
    groups = getattr(module, "groups", 1)
    return seen.kind == "convolution" and groups > 1 and groups == seen.input_shape[1]


def _nothing_chosen(layers: str, candidates: Sequence[Seen]) -> str:
    names = [layer.name for layer in candidates]
    listed = ", ".join(names[:8]) + (f", … ({len(names)} in all)" if len(names) > 8 else "")
    found = f"it could mix time behind {listed}" if names else "it has neither"
    return (
        f"layers={layers!r} matches no convolution or attention of this network; {found}. Use all, "
        "spatial>1, depthwise, a pattern like 'blocks.*.conv', or re:REGEX"
    )


def _pools(seen: Mapping[str, Seen], options: InflationOptions) -> list[Seen]:
    pools: list[Seen] = []
    for pattern in options.temporal_pool:
        matches = _name_pattern(pattern)
        found = [layer for name, layer in seen.items() if name and matches(name)]
        usable = [layer for layer in found if layer.by_frame and len(layer.output_shape) > 2]
        if not usable:
            raise InflationError(
                f"temporal_pool: {pattern!r} matches no block that gives feature maps or tokens; "
                f"there are {', '.join(name for name in list(seen)[1:12] if name)}, …"
            )
        pools += usable
    pools = sorted({pool.name: pool for pool in pools}.values(), key=lambda pool: pool.ended)
    if 2 ** len(pools) > options.num_steps:
        raise InflationError(
            f"temporal_pool halves time {len(pools)} times, but {options.num_frames} frames are "
            f"only {options.num_steps} steps; pool less often or take more frames"
        )
    return pools


def _reduction(layer: Seen, pools: Sequence[Seen]) -> int:
    """How often time has been halved before this layer's output is mixed."""
    return int(2 ** sum(pool.ended < layer.ended for pool in pools))


def _with_patch(
    network: nn.Module, seen: Mapping[str, Seen], layers: list[PlannedLayer]
) -> list[PlannedLayer]:
    """The first convolution takes several frames, if it alone sees the image."""
    takers = [
        layer
        for layer in seen.values()
        if layer.takes_image and layer.kind == "convolution" and layer.by_frame
    ]
    if len(takers) != 1:
        return layers
    first = takers[0]
    module = network.get_submodule(first.name)
    weight = module._parameters.get("weight")
    if weight is None or weight.ndim != 4 or getattr(module, "groups", 1) != 1:
        return layers
    rest = [layer for layer in layers if layer.name != first.name]
    return [PlannedLayer(first.name, "patch", first.channels, 1, 1), *rest]


def _head(network: nn.Module, seen: Mapping[str, Seen]) -> str | None:
    """The last linear layer or 1×1 convolution that gives one number per class."""
    classes = seen[""].output_shape[-1] if "" in seen and seen[""].output_shape else None
    heads = [
        layer
        for layer in seen.values()
        if isinstance(network.get_submodule(layer.name), nn.Linear | nn.Conv2d)
        and classes in layer.output_shape[1:]
    ]
    return max(heads, key=lambda layer: layer.ended).name if heads else None
