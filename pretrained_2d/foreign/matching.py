"""Foreign tensors and the tensors of a network: who is who, and what is left on either side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from pretrained_2d.foreign.naming import Convention

# What parallel training, compilers and frameworks put before every name.
PREFIXES = (
    "module.",
    "_orig_mod.",
    "model.",
    "backbone.",
    "network.",
    "net.",
    "encoder.",
    "base_model.",
    "student.",
    "teacher.",
    "ema.",
)
COUNTER = "num_batches_tracked"  # of batch norms; only some programs save it, and nothing reads it


@dataclass(frozen=True)
class Match:
    """`tensors` under our names; `names` says what all of them were called in the file."""

    convention: str
    prefixes: tuple[str, ...]
    names: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    unknown: Mapping[str, Tensor] = field(default_factory=dict)  # by the name our rules gave them
    notes: tuple[str, ...] = ()


def match_by_name(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], conventions: Sequence[Convention]
) -> Match:
    """The convention and prefixes under which most names of the network are found."""
    candidates = [_match(tensors, wanted, convention) for convention in conventions]
    return max(candidates, key=lambda match: len(match.tensors))


def match_by_structure(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], heads: Sequence[str]
) -> Match | None:
    """Pair tensors by their place, if all shapes and kinds agree one by one in order; else None.

    Kinds are the last parts of names (weight, bias, running_mean), so that two layers of equal
    shape may be confused only when the file lists them in another order than the network does.
    The layers named `heads` may have another number of classes.
    """
    theirs = [name for name in tensors if not name.endswith(COUNTER)]
    ours = [name for name in wanted if not name.endswith(COUNTER)]
    if len(theirs) != len(ours):
        return None
    for their_name, our_name in zip(theirs, ours, strict=True):
        same_kind = their_name.rpartition(".")[2] == our_name.rpartition(".")[2]
        their_shape, our_shape = tensors[their_name].shape, wanted[our_name].shape
        if our_name.rpartition(".")[0] in heads:
            their_shape, our_shape = their_shape[1:], our_shape[1:]
        if not same_kind or their_shape != our_shape:
            return None
    names = dict(zip(ours, theirs, strict=True))
    found = {ours: tensors[theirs] for ours, theirs in names.items()}
    return Match("order and shapes (the names differ)", (), names, found)


def _match(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], convention: Convention
) -> Match:
    originals = {name: name for name in tensors}  # name so far -> name in the file
    prefixes: list[str] = []
    score = _score(originals, wanted, convention)
    while True:
        for prefix in PREFIXES:
            stripped = _strip(originals, prefix)
            if stripped is None:
                continue
            new_score = _score(stripped, wanted, convention)
            general = sum(name.startswith(prefix) for name in originals) * 2 >= len(originals)
            if new_score > score or (general and new_score == score == 0):
                originals, score = stripped, new_score
                prefixes.append(prefix)
                break
        else:
            break
    names, found, unknown = {}, {}, {}
    for name, original in originals.items():
        ours = convention.rename(name)
        if ours in names:  # two of theirs would become one of ours
            ours += "?"
        names[ours] = original
        if ours in wanted:
            found[ours] = convention.convert(ours, tensors[original])
        else:
            unknown[ours] = tensors[original]
    return Match(convention.name, tuple(prefixes), names, found, unknown)


def common_prefixes(tensors: Mapping[str, Tensor]) -> tuple[tuple[str, ...], dict[str, Tensor]]:
    """Prefixes that all names have, and the tensors without them."""
    prefixes: list[str] = []
    stripped = dict(tensors)
    while True:
        for prefix in PREFIXES:
            if stripped and all(name.startswith(prefix) for name in stripped):
                prefixes.append(prefix)
                stripped = {name.removeprefix(prefix): t for name, t in stripped.items()}
                break
        else:
            return tuple(prefixes), stripped


def _score(names: Mapping[str, str], wanted: Mapping[str, Tensor], convention: Convention) -> int:
    return sum(convention.rename(name) in wanted for name in names)


def _strip(originals: Mapping[str, str], prefix: str) -> dict[str, str] | None:
    """Names without a prefix where they have it; None if none has or two would become one."""
    if not any(name.startswith(prefix) for name in originals):
        return None
    stripped = {name.removeprefix(prefix): original for name, original in originals.items()}
    return stripped if len(stripped) == len(originals) else None
