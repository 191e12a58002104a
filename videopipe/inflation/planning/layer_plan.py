"""Which layers of a 2D network mix time, and how, as plain JSON that rebuilds the network."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from torch import nn

from videopipe.inflation.options import InflationError, InflationOptions
from videopipe.inflation.planning.classifying_head import check_head, find_head
from videopipe.inflation.planning.layer_selection import name_pattern, select_layers
from videopipe.inflation.planning.survey import LayerTrace, evaluating, survey, trial_images

# Version 1 ignored `bidirectional` in all methods but s4nd, and cut causal kernels at the clip.
VERSION = 2
# Values of options that are missing in a checkpoint, independent of the current defaults.
EARLIER_DEFAULTS = {"start": "identity", "length": 1.0, "basis": "fourier"}


@dataclass(frozen=True)
class PlannedLayer:
    """One layer that changes: it gets a kernel along time, takes several frames, or is pooled."""

    name: str
    role: Literal["kernel", "mixing", "patch", "pool"]
    channels: int
    channel_dim: int  # of its folded output
    reduction: int  # steps after the first layer ÷ steps here


@dataclass(frozen=True)
class InflationPlan:
    """Everything that turns a 2D network into its folded form."""

    options: InflationOptions
    layers: tuple[PlannedLayer, ...]
    in_channels: int
    head: str | None  # name of the classifying layer
    version: int = VERSION

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` reads it back."""
        return asdict(self)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> "InflationPlan":
        """The plan that `to_json` of this or an earlier version wrote.

        Raises InflationError for anything else.
        """
        version = content.get("version")
        if version not in (1, VERSION):
            raise InflationError(
                f"the inflation in this checkpoint has version {version!r}, this program reads "
                f"1 to {VERSION}: update videopipe, or inflate again"
            )
        try:
            options = {**EARLIER_DEFAULTS, **content["options"]}
            options["temporal_pool"] = tuple(options.get("temporal_pool", ()))
            if version == 1 and options["method"] != "s4nd":
                options["bidirectional"] = True
            return InflationPlan(
                InflationOptions(**options),
                tuple(PlannedLayer(**layer) for layer in content["layers"]),
                content["in_channels"],
                content["head"],
                version,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InflationError(f"the inflation in this checkpoint is damaged: {error}") from error


def make_plan(
    network: nn.Module, options: InflationOptions, image_size: int, head: str | None = None
) -> InflationPlan:
    """Run the network once and choose its layers.

    head: name of the classifying layer, "" if there is none; None finds it.

    Raises InflationError when nothing matches or the network does not run on such images.
    """
    in_channels = input_channels(network, image_size)
    try:
        traces = survey(network, image_size, in_channels)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        raise InflationError(
            f"the 2D network does not run on images of {in_channels}×{image_size}×{image_size}: "
            f"{error}; give the image_size it was trained for"
        ) from error
    images = trial_images(network, 1, image_size, in_channels)
    pools = _pools(traces, options)
    layers = [] if options.method == "none" else _mixing_layers(network, traces, options, pools)
    if options.temporal_patch > 1:
        layers = _with_patch(network, traces, layers)
    layers += [
        PlannedLayer(pool.name, "pool", pool.channels, pool.channel_dim, _reduction(pool, pools))
        for pool in pools
    ]
    named = find_head(network, images) if head is None else check_head(network, head)
    return InflationPlan(options, tuple(layers), in_channels, named)


def input_channels(network: nn.Module, image_size: int) -> int:
    """Channels of an image: those of the first convolution, or 3 where other layers feed it."""
    inner = getattr(network, "network", network)
    stem = getattr(inner, "pretrained_cfg", {}).get("first_conv")
    modules = dict(inner.named_modules())
    named = [modules.get(name) for name in ([stem] if isinstance(stem, str) else stem or ())]
    convolutions = (m for m in (*named, *network.modules()) if isinstance(m, nn.Conv2d))
    first = next(convolutions, None)
    channels = 3 if first is None else first.in_channels
    # Pixels may be moved into channels before the convolution (TResNet: 48 are 4 × 4 of 3).
    candidates = [channels, *(channels // parts for parts in (16, 4) if channels % parts == 0)]
    takes = (count for count in candidates if _takes(network, image_size, count))
    return channels if channels <= 4 else next(takes, 3)


def _takes(network: nn.Module, image_size: int, channels: int) -> bool:
    try:
        with evaluating(network):
            network(trial_images(network, 1, image_size, channels))
    except (RuntimeError, ValueError, AssertionError, TypeError):
        return False
    return True


def _mixing_layers(
    network: nn.Module,
    traces: Mapping[str, LayerTrace],
    options: InflationOptions,
    pools: Sequence[LayerTrace],
) -> list[PlannedLayer]:
    return [
        PlannedLayer(
            layer.name,
            _role(network.get_submodule(layer.name), layer, options),
            layer.channels,
            layer.channel_dim,
            _reduction(layer, pools),
        )
        for layer in select_layers(network, traces, options)
    ]


def _role(
    module: nn.Module, trace: LayerTrace, options: InflationOptions
) -> Literal["kernel", "mixing"]:
    """Only a convolution with a plain weight can have a 3D kernel; others are mixed afterwards."""
    plain = isinstance(module._parameters.get("weight"), nn.Parameter)
    bias = module._parameters.get("bias")
    plain = plain and (bias is None or bias.ndim == 1)
    three_dimensional = options.method in ("i3d", "center") and trace.kind == "convolution"
    return "kernel" if three_dimensional and plain else "mixing"


def _pools(traces: Mapping[str, LayerTrace], options: InflationOptions) -> list[LayerTrace]:
    pools: list[LayerTrace] = []
    usable = [
        layer
        for name, layer in traces.items()
        if name and layer.by_frame and len(layer.output_shape) > 2
    ]
    for pattern in options.temporal_pool:
        matches = name_pattern(pattern)
        found = [layer for layer in usable if matches(layer.name)]
        if not found:
            names = sorted((layer.name for layer in usable), key=lambda name: name.count("."))
            raise InflationError(
                f"temporal_pool: {pattern!r} matches no block that gives feature maps or tokens; "
                f"there are {', '.join(names[:20])}, …"
            )
        pools += found
    pools = sorted({pool.name: pool for pool in pools}.values(), key=lambda pool: pool.ended)
    if 2 ** len(pools) > options.num_steps:
        raise InflationError(
            f"temporal_pool halves time {len(pools)} times, but {options.num_frames} frames are "
            f"only {options.num_steps} steps; pool less often or take more frames"
        )
    return pools


def _reduction(layer: LayerTrace, pools: Sequence[LayerTrace]) -> int:
    """How often time has been halved before this layer's output is mixed."""
    return int(2 ** sum(pool.ended < layer.ended for pool in pools))


def _with_patch(
    network: nn.Module, traces: Mapping[str, LayerTrace], layers: list[PlannedLayer]
) -> list[PlannedLayer]:
    """The first convolution takes several frames, if no other layer reads the image."""
    takers = [
        layer
        for layer in traces.values()
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
