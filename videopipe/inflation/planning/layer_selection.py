"""Which layers of a 2D network mix time: by kind, by name, or once per block."""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from torch import nn

from videopipe.inflation.options import InflationError, InflationOptions
from videopipe.inflation.planning.survey import LayerTrace, is_convolution

# These methods add to the features of a block and leave the first layer as it is.
_INSIDE_BLOCKS = ("shift", "adapter", "attention")
_ONCE_PER_BLOCK = ("adapter", "attention")


def select_layers(
    network: nn.Module, traces: Mapping[str, LayerTrace], options: InflationOptions
) -> list[LayerTrace]:
    """Convolutions and token mixers that `options.layers` asks for, in the order of their calls.

    A convolution inside a chosen token mixer is left out.
    Raises InflationError when nothing matches.
    """
    candidates = [
        layer
        for name, layer in traces.items()
        if name and layer.kind != "block" and len(layer.output_shape) > 2
    ]
    wanted = _predicate(options.layers)
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
    ordered = sorted(outermost, key=lambda layer: layer.began)
    if options.method in _INSIDE_BLOCKS:
        ordered = [layer for layer in ordered if not layer.takes_image] or ordered
    if options.method in _ONCE_PER_BLOCK:
        ordered = list({block_of(network, layer.name): layer for layer in ordered}.values())
    return ordered


def block_of(network: nn.Module, name: str) -> str:
    """The innermost module around a layer that holds further convolutions or linear layers.

    The layer itself where only containers such as nn.Sequential, or the whole network, do.
    """
    block = name.rpartition(".")[0]
    while block:
        module = network.get_submodule(block)
        layers = [m for m in module.modules() if is_convolution(m) or isinstance(m, nn.Linear)]
        if len(layers) > 1 and not isinstance(
            module, nn.Sequential | nn.ModuleList | nn.ModuleDict
        ):
            return block
        block = block.rpartition(".")[0]
    return name


def _predicate(layers: str) -> Callable[[LayerTrace, nn.Module], bool]:
    """`all`, `depthwise`, `spatial>1`, a glob, or `re:` and a regular expression."""
    if layers == "all":
        return lambda *_: True
    if layers == "depthwise":
        return _is_depthwise
    if layers == "spatial>1":
        return lambda trace, module: trace.kind == "mixer" or _extent(module) > 1
    matches = name_pattern(layers)
    return lambda trace, _: matches(trace.name)


def name_pattern(pattern: str) -> Callable[[str], bool]:
    """A glob over the whole name, or `re:` and a regular expression found anywhere in it.

    `network.`, with which names in checkpoints of timm and torchvision begin, may be left out.
    """
    if not pattern.startswith("re:"):
        return lambda name: any(fnmatchcase(each, pattern) for each in _names(name))
    try:
        expression = re.compile(pattern[3:])
    except re.error as error:
        raise InflationError(f"{pattern[3:]!r} is not a regular expression ({error})") from error
    return lambda name: any(expression.search(each) for each in _names(name))


def _names(name: str) -> tuple[str, str]:
    return name, name.removeprefix("network.")


def _extent(module: nn.Module) -> int:
    """Largest side of a convolution's kernel, in pixels."""
    size = getattr(module, "kernel_size", None)
    if size is None:
        size = module.weight.shape[2:]  # type: ignore[index]
    return max(size) if isinstance(size, Sequence) else int(size)


def _is_depthwise(trace: LayerTrace, module: nn.Module) -> bool:
    groups = getattr(module, "groups", 1)
    return trace.kind == "convolution" and groups > 1 and groups == trace.input_shape[1]


def _nothing_chosen(layers: str, candidates: Sequence[LayerTrace]) -> str:
    names = [layer.name for layer in candidates]
    listed = ", ".join(names[:8]) + (f", … ({len(names)} in all)" if len(names) > 8 else "")
    found = f"time can be mixed after {listed}" if names else "it has neither"
    return (
        f"layers={layers!r} matches no convolution or attention of this network; {found}. Use all, "
        "spatial>1, depthwise, a pattern like 'blocks.*.conv', or re:REGEX"
    )
