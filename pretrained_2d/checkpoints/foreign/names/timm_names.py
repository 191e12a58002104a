"""Original checkpoints of networks that timm re-implements, through timm's own conversion."""

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from torch import Tensor, nn

from pretrained_2d.checkpoints.foreign.names.matching import Match, parts_of, prefixes_of
from pretrained_2d.checkpoints.foreign.names.naming import shared_prefix

TOWER = "visual."  # where CLIP keeps its image tower; timm's conversion asks for it


def match_by_timm(tensors: Mapping[str, Tensor], network: nn.Module) -> Match | None:
    """What timm makes of the names, if it has a conversion for this network; else None.

    Of the prefixes that many names share, the one under which most tensors are found is taken. A
    tower of CLIP that was saved alone is also tried under the name it has in the whole network.
    """
    inner: Any = network.network
    convert = getattr(sys.modules[type(inner).__module__], "checkpoint_filter_fn", None)
    if convert is None:
        return None
    matches = [
        _converted(tensors, network, prefix, tower, convert)
        for prefix in prefixes_of(tensors)
        for tower in ("", TOWER)
    ]
    found = [match for match in matches if match is not None]
    return max(found, key=lambda match: len(match.tensors), default=None)


def _converted(
    tensors: Mapping[str, Tensor], network: nn.Module, prefix: str, tower: str, convert: Any
) -> Match | None:
    inside = [name for name in tensors if name.startswith(prefix)]
    # Take only names with the prefix for a tower saved alone, or if two names would become one.
    collide = len({name.removeprefix(prefix) for name in tensors}) < len(tensors)
    taken = inside if tower or collide else list(tensors)
    originals = {tower + name.removeprefix(prefix): name for name in taken}
    stripped = {name: tensors[original] for name, original in originals.items()}
    try:
        with redirect_stdout(StringIO()):  # timm prints the names that it does not find
            converted = convert(dict(stripped), network.network)
    except (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError,
            ValueError):  # fmt: skip
        return None  # not a file that the conversion is for
    if isinstance(converted, tuple) or not converted:
        return None
    wanted = network.state_dict()
    ours = {f"network.{name}": tensor for name, tensor in converted.items()}
    sources = {tensor.data_ptr(): originals[name] for name, tensor in stripped.items()}
    names, notes = {}, []
    for name, tensor in converted.items():
        original = originals.get(name) or sources.get(tensor.data_ptr())
        names[f"network.{name}"] = original or "(by timm's rules)"
        before = tensors.get(original or "")
        if before is None and "pos_embed" in name:
            notes.append(f"{name}: made {tuple(tensor.shape)} by timm")
        elif before is not None and before.numel() != tensor.numel():
            notes.append(f"{name}: {tuple(before.shape)} made {tuple(tensor.shape)} by timm")
    found = {name: tensor for name, tensor in ours.items() if name in wanted}
    unknown = {name: tensor for name, tensor in ours.items() if name not in wanted}
    outside = tensors.keys() - set(originals.values())
    for name in [*_dropped(stripped, originals, set(names.values())), *outside]:
        names[name], unknown[name] = name, tensors[name]
    for name in _lost_biases(stripped, originals, set(names.values())):
        names[f"network.{name}"], unknown[f"network.{name}"] = originals[name], stripped[name]
    return Match("timm's own conversion", parts_of(prefix), names, found, unknown, tuple(notes))


def _dropped(
    stripped: Mapping[str, Tensor], originals: Mapping[str, str], used: set[str]
) -> list[str]:
    """Names in the file of whole parts that the conversion leaves out: text towers, mask tokens.

    Inside a part that is used, tensors may have been joined or resampled.
    """
    start = len(shared_prefix(stripped))
    part_of = {name: name[start:].partition(".")[0] for name in stripped}
    parts = {part for name, part in part_of.items() if originals[name] in used}
    return [originals[name] for name, part in part_of.items() if part not in parts]


def _lost_biases(
    stripped: Mapping[str, Tensor], originals: Mapping[str, str], used: set[str]
) -> list[str]:
    """Biases of queries and values that are not zero, and that the network has no place for.

    DINOv3 has them; timm's networks without `_qkvb` in their name do not.
    """
    lost = []
    for name, bias in stripped.items():
        if name.endswith("attn.qkv.bias") and originals[name] not in used:
            queries, _, values = bias.chunk(3)
            lost += [name] if queries.any() or values.any() else []
    return lost
