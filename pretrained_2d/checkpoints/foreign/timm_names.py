"""Original checkpoints of networks that timm re-implements, through timm's own conversion."""

import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from pretrained_2d.checkpoints.foreign.matching import Match, parts_of, prefixes_of


def match_by_timm(tensors: Mapping[str, Tensor], network: nn.Module) -> Match | None:
    """What timm makes of the names, if it has a conversion for this network; else None.

    Of the prefixes that many names share, the one under which most tensors are found is taken.
    """
    inner: Any = network.network
    convert = getattr(sys.modules[type(inner).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return None
    matches = [_converted(tensors, network, prefix, convert) for prefix in prefixes_of(tensors)]
    found = [match for match in matches if match is not None]
    return max(found, key=lambda match: len(match.tensors), default=None)


def _converted(
    tensors: Mapping[str, Tensor], network: nn.Module, prefix: str, convert: Any
) -> Match | None:
    originals = {name.removeprefix(prefix): name for name in tensors}
    if len(originals) < len(tensors):  # two would become one: only those with the prefix
        originals = {n.removeprefix(prefix): n for n in tensors if n.startswith(prefix)}
    stripped = {name: tensors[original] for name, original in originals.items()}
    try:
        converted = convert(dict(stripped), network.network)
    except (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError,
            ValueError):  # fmt: skip
        return None  # not a file that the conversion is for
    if isinstance(converted, tuple) or not converted:
        return None
    wanted = network.state_dict()
    ours = {f"network.{name}": tensor for name, tensor in converted.items()}
    names, notes = {}, []
    for name, tensor in converted.items():
        before = stripped.get(name)
        names[f"network.{name}"] = originals.get(name, "(by timm's rules)")
        if before is not None and before.shape != tensor.shape:
            notes.append(f"{name}: {tuple(before.shape)} made {tuple(tensor.shape)} by timm")
    found = {name: tensor for name, tensor in ours.items() if name in wanted}
    unknown = {name: tensor for name, tensor in ours.items() if name not in wanted}
    for name in tensors.keys() - set(originals.values()):
        names[name], unknown[name] = name, tensors[name]
    return Match("timm's own conversion", parts_of(prefix), names, found, unknown, tuple(notes))
