"""Compare the names and shapes of tensors with those of a network."""

from collections import OrderedDict
from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path

from torch import Tensor, nn

from pretrained_2d.errors import CheckpointError

SHOWN = 12  # lines of a mismatch that are printed; the rest is counted


def check_fit(
    given: Mapping[str, Tensor], wanted: Mapping[str, Tensor], source: Path | str, target: str
) -> None:
    """Raise CheckpointError unless names and shapes agree exactly."""
    problems = mismatches(given, wanted)
    if problems:
        raise CheckpointError(f"{source} does not fit {target}:\n" + side_by_side(problems))


def load_tensors(network: nn.Module, tensors: Mapping[str, Tensor], *, strict: bool = True) -> None:
    """`load_state_dict` for tensors of a file, which hold no module versions.

    Some networks (torchvision's MNASNet) refuse a state dict without versions. The tensors are
    for the network as it is, so its versions are used.
    """
    state = OrderedDict(tensors)
    state._metadata = network.state_dict()._metadata  # type: ignore[attr-defined]
    network.load_state_dict(state, strict=strict)


def mismatches(
    given: Mapping[str, Tensor],
    wanted: Mapping[str, Tensor],
    file_names: Mapping[str, str] | None = None,
) -> list[tuple[str, str]]:
    """Pairs (tensor of the network, tensor of the file or a hint), as text, for all differences.

    file_names: the names of the tensors in their file, where these differ.
    """

    def in_file(name: str) -> str:
        return _describe((file_names or {}).get(name, name), given[name])

    spare = {name: tensor for name, tensor in given.items() if name not in wanted}
    problems: list[tuple[str, str]] = []
    for name, tensor in wanted.items():
        if name not in given:
            # Only for the lines that are printed: the search is slow with thousands of names.
            near = nearest(name, tensor, spare) if len(problems) < SHOWN else None
            found = f"missing; nearest: {in_file(near)}" if near else "missing"
            problems.append((_describe(name, tensor), found))
        elif given[name].shape != tensor.shape:
            problems.append((_describe(name, tensor), in_file(name)))
    return problems + [("–", in_file(name)) for name in spare]


def nearest(name: str, wanted: Tensor, candidates: Mapping[str, Tensor]) -> str | None:
    """The candidate whose name and shape are most similar; None without any."""

    def likeness(other: str) -> float:
        same_shape = candidates[other].shape == wanted.shape
        same_kind = other.rpartition(".")[2] == name.rpartition(".")[2]
        return SequenceMatcher(None, name, other).ratio() + 0.5 * same_shape + 0.3 * same_kind

    best = max(candidates, key=likeness, default=None)
    return best if best is not None and likeness(best) > 0.8 else None


def side_by_side(problems: list[tuple[str, str]]) -> str:
    """A table of the differences: the network's tensors on the left, the file's on the right."""
    shown = [("the network has", "the file has"), *problems[:SHOWN]]
    width = max(len(left) for left, _ in shown)
    lines = [f"  {left:<{width}}  {right}" for left, right in shown]
    if len(problems) > SHOWN:
        lines.append(f"  … and {len(problems) - SHOWN} more")
    return "\n".join(lines)


def _describe(name: str, tensor: Tensor) -> str:
    return f"{name} {tuple(tensor.shape)}"
