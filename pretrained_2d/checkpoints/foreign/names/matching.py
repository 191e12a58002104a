"""Match the tensors of a file to those of a network; report what is left over on both sides."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from pretrained_2d.checkpoints.foreign.names.naming import Convention

# Parallel training, compilers and frameworks put a prefix before names: `module.`, `model.`,
# `student.backbone.`. Any dotted prefix that this share of the names have in common is tried.
SHARE_OF_NAMES, DEEPEST_PREFIX = 0.2, 6
LARGEST_HEAD = 4  # tensors of a foreign head that structure may leave over: two linear layers
COUNTER = "num_batches_tracked"  # of batch norms; only some programs save it, and it is not used


@dataclass(frozen=True)
class Match:
    """`tensors` under our names; `names` maps all of them to their names in the file."""

    convention: str
    prefixes: tuple[str, ...]
    names: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    unknown: Mapping[str, Tensor] = field(default_factory=dict)  # by the name our rules gave them
    notes: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()  # other prefixes under which as many names are found


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
    The layers named `heads` may have another number of classes, or be other layers altogether: a
    few tensors at the end of the file that the body of the network does not have are left over.
    """
    theirs = [name for name in tensors if not name.endswith(COUNTER)]
    ours = [name for name in wanted if not name.endswith(COUNTER)]
    pairs = _pairs(tensors, theirs, wanted, ours, heads)
    rest: list[str] = []
    if pairs is None and heads:
        body = [name for name in ours if name.rpartition(".")[0] not in heads]
        theirs, rest = theirs[: len(body)], theirs[len(body) :]
        pairs = _pairs(tensors, theirs, wanted, body, ()) if len(rest) <= LARGEST_HEAD else None
    if pairs is None:
        return None
    found = {our_name: tensors[their_name] for our_name, their_name in pairs.items()}
    unknown = {f"{heads[0]}.{name}": name for name in rest}
    return Match(
        "order and shapes (the names differ)", (), {**pairs, **unknown}, found,
        {our_name: tensors[name] for our_name, name in unknown.items()},
    )  # fmt: skip


def _pairs(
    tensors: Mapping[str, Tensor],
    theirs: Sequence[str],
    wanted: Mapping[str, Tensor],
    ours: Sequence[str],
    heads: Sequence[str],
) -> dict[str, str] | None:
    """Our names -> theirs in the same place; None if a shape or kind differs."""
    if len(theirs) != len(ours):
        return None
    for their_name, our_name in zip(theirs, ours, strict=True):
        same_kind = their_name.rpartition(".")[2] == our_name.rpartition(".")[2]
        their_shape, our_shape = tensors[their_name].shape, wanted[our_name].shape
        if our_name.rpartition(".")[0] in heads:
            their_shape, our_shape = their_shape[1:], our_shape[1:]
        if not same_kind or their_shape != our_shape:
            return None
    return dict(zip(ours, theirs, strict=True))


def _match(
    tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor], convention: Convention
) -> Match:
    """The match under the prefix that finds most names; the shortest of several."""
    best, score, taken_off = {name: name for name in tensors}, -1, ""
    rivals: list[str] = []
    for prefix in prefixes_of(tensors):
        stripped = _strip(tensors, prefix)
        if stripped is None:
            continue
        new_score = sum(convention.rename(name) in wanted for name in stripped)
        if new_score > score:
            best, score, taken_off, rivals = stripped, new_score, prefix, []
        elif new_score == score and not prefix.startswith(taken_off):
            rivals.append(prefix.rstrip("."))
    names, found, unknown = {}, {}, {}
    for name, original in best.items():
        ours = convention.rename(name)
        if ours in names:  # two of theirs would become one of ours
            ours += "?"
        names[ours] = original
        if ours in wanted:
            found[ours] = convention.convert(ours, tensors[original])
        else:
            unknown[ours] = tensors[original]
    rival_sets = tuple(rivals) if found else ()
    return Match(convention.name, parts_of(taken_off), names, found, unknown, rivals=rival_sets)


def prefixes_of(names: Mapping[str, Tensor]) -> list[str]:
    """No prefix, then those that many names share, the shortest first."""
    counts: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")[:-1]
        counts.update(".".join(parts[: end + 1]) + "." for end in range(len(parts)))
    shared = [
        prefix
        for prefix, count in counts.items()
        if count >= SHARE_OF_NAMES * len(names) and prefix.count(".") <= DEEPEST_PREFIX
    ]
    return ["", *sorted(shared, key=lambda prefix: prefix.count("."))]


def parts_of(prefix: str) -> tuple[str, ...]:
    """`model.backbone.` -> ("model.", "backbone.")."""
    return tuple(f"{part}." for part in prefix.split(".")[:-1])


def _strip(names: Mapping[str, Tensor], prefix: str) -> dict[str, str] | None:
    """Names without a prefix -> names; None if two would become one."""
    stripped = {name.removeprefix(prefix): name for name in names}
    return stripped if len(stripped) == len(names) else None
