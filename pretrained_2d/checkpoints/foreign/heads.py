"""The classifying layer of a foreign checkpoint: whether it fits, which tensors are part of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.foreign.names.matching import Match
from pretrained_2d.errors import CheckpointError, PretrainedError
from pretrained_2d.networks.backbones import build

# None: the file's head where it fits the network, else a new one.
HeadChoice = Literal["new", "drop", "strict"]


def heads_of(network: nn.Module, architecture: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the classifying layers; for an encoder, those it would have with classes."""
    heads: tuple[str, ...] = getattr(network, "heads", ("head",))
    if heads:
        return heads
    try:
        with torch.device("meta"):
            return getattr(build(architecture, **{**options, "num_classes": 2}), "heads", ())
    except (PretrainedError, RuntimeError):
        return ()


def is_of_head(name: str, heads: tuple[str, ...]) -> bool:
    """Whether a tensor is part of a classifying layer, or of a container of one (`classifier`)."""
    for head in heads:
        parent = head.rpartition(".")[0]
        inside = [head, parent] if parent not in ("", "network") else [head]
        if name.startswith(tuple(f"{each}." for each in inside)) and not name.endswith("?"):
            return True
    return False


def num_classes_for(
    match: Match,
    network: nn.Module,
    heads: tuple[str, ...],
    given: Mapping[str, Any],
    choice: HeadChoice | None,
) -> int | None:
    """The number of classes in the file, where the network must be built again for it."""
    if not heads or choice in ("new", "drop"):
        return None
    name = f"{heads[0]}.weight"
    weight = match.tensors.get(name, match.unknown.get(name))
    wanted = network.state_dict().get(name)
    if weight is None or (wanted is not None and not _same_features(weight, wanted)):
        return None
    if len(weight) == (0 if wanted is None else len(wanted)):
        return None
    if "num_classes" in given:
        raise CheckpointError(
            f"the file distinguishes {len(weight)} classes, but {given['num_classes']} are "
            "asked for; give the labels of the file, --head new for a new head, or --head drop for "
            "an encoder"
        )
    return len(weight)


def without_foreign_head(
    match: Match, network: nn.Module, heads: tuple[str, ...], choice: HeadChoice | None
) -> Match:
    """Remove a head that is not wanted or does not fit from the match; return the new match."""
    if choice == "strict" or not heads:
        return match
    wanted = network.state_dict()
    foreign = [
        name
        for name, tensor in match.tensors.items()
        if name.startswith(tuple(f"{head}." for head in heads))
        and (choice == "new" or not _same_features(tensor, wanted[name], whole=True))
    ]
    layers = {name.rpartition(".")[0] for name in foreign}  # a weight and its bias go together
    gone = {name for name in match.tensors if name.rpartition(".")[0] in layers}
    return replace(
        match,
        tensors={name: t for name, t in match.tensors.items() if name not in gone},
        unknown={**match.unknown, **{name: match.tensors[name] for name in gone}},
    )


def _same_features(tensor: Tensor, wanted: Tensor, *, whole: bool = False) -> bool:
    """The same shape but for axes of one sample; the number of classes counts only if `whole`."""
    first = 0 if whole else 1
    theirs, ours = tensor.shape[first:], wanted.shape[first:]
    return [size for size in theirs if size != 1] == [size for size in ours if size != 1]
