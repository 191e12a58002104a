"""Original checkpoints of networks that timm re-implements, through timm's own conversion."""

import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from pretrained_2d.foreign.matching import Match, common_prefixes


def match_by_timm(tensors: Mapping[str, Tensor], network: nn.Module) -> Match | None:
    """What timm makes of the names, if it has a conversion for this network; else None."""
    inner: Any = network.network
    convert = getattr(sys.modules[type(inner).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return None
    prefixes, stripped = common_prefixes(tensors)
    try:
        converted = convert(stripped, inner)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        return None  # not a file that the conversion is for
    if isinstance(converted, tuple) or not converted:
        return None
    wanted = network.state_dict()
    ours = {f"network.{name}": tensor for name, tensor in converted.items()}
    names, notes = {}, []
    for name, tensor in converted.items():
        before = stripped.get(name)
        names[f"network.{name}"] = name if before is not None else "(by timm's rules)"
        if before is not None and before.shape != tensor.shape:
            notes.append(f"{name}: {tuple(before.shape)} made {tuple(tensor.shape)} by timm")
    found = {name: tensor for name, tensor in ours.items() if name in wanted}
    unknown = {name: tensor for name, tensor in ours.items() if name not in wanted}
    return Match("timm's own conversion", prefixes, names, found, unknown, tuple(notes))
