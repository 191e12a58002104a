"""Whether tensors fit a network, and a message that shows side by side where they do not."""

from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path

from torch import Tensor

from pretrained_2d.errors import CheckpointError

SHOWN = 12  # lines of a mismatch that are printed; the rest is counted


def check_fit(
    given: Mapping[str, Tensor], wanted: Mapping[str, Tensor], source: Path | str, target: str
) -> None:
    """Raise CheckpointError unless names and shapes agree exactly."""
    problems = mismatches(given, wanted)
    if problems:
        raise CheckpointError(f"{source} does not fit {target}:\n" + side_by_side(problems))


def mismatches(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> list[tuple[str, str]]:
    """Pairs (what the network wants, what the file has nearest to it)."""
    missing = [name for name in wanted if name not in given]
    unexpected = [name for name in given if name not in wanted]
    problems = []
    for name in wanted:
        if name in given and given[name].shape != wanted[name].shape:
            problems.append((_describe(name, wanted[name]), _describe(name, given[name])))
    for name in missing:
        near = nearest(name, wanted[name], {other: given[other] for other in unexpected})
        problems.append((_describe(name, wanted[name]), near))
    matched = " ".join(have for _, have in problems)
    for name in unexpected:
        if name not in matched.split():
            problems.append(("–", _describe(name, given[name])))
    return problems


def nearest(name: str, wanted: Tensor, candidates: Mapping[str, Tensor]) -> str:
    """The candidate whose name and shape are nearest, described; or "missing"."""

    def likeness(other: str) -> float:
        same_shape = candidates[other].shape == wanted.shape
        return SequenceMatcher(None, name, other).quick_ratio() + 0.5 * same_shape

    best = max(candidates, key=likeness, default=None)
    if best is None or likeness(best) < 0.6:
        return "missing"
    return "missing; nearest: " + _describe(best, candidates[best])


def side_by_side(problems: list[tuple[str, str]]) -> str:
    """Two columns, the network's and the file's."""
    shown = [("the network has", "the file has"), *problems[:SHOWN]]
    width = max(len(left) for left, _ in shown)
    lines = [f"  {left:<{width}}  {right}" for left, right in shown]
    if len(problems) > SHOWN:
        lines.append(f"  … and {len(problems) - SHOWN} more")
    return "\n".join(lines)


def _describe(name: str, tensor: Tensor) -> str:
    return f"{name} {tuple(tensor.shape)}"
