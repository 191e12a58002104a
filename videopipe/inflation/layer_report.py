"""The report of an inflation: whether each layer was inflated, copied, new or dropped."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from videopipe.inflation.options import InflationOptions
from videopipe.inflation.proof import Proof

State = Mapping[str, Tensor]


@dataclass(frozen=True)
class LayerRow:
    """One layer. Shapes are by tensor name, before (2D) and after (video)."""

    layer: str
    status: str  # "inflated", "copied", "new", "dropped"
    before: dict[str, list[int]]
    after: dict[str, list[int]]
    parameters_before: int
    parameters_after: int


@dataclass(frozen=True)
class InflationReport:
    """The whole operation: choices, proof, totals, and a row for each layer."""

    architecture: str
    way: str  # "rebuilt" with a third axis, or "folded" frames in the 2D graph
    options: InflationOptions
    logits: str
    parameters_before: int
    parameters_after: int
    proof: Proof
    rows: tuple[LayerRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, as in `inflation.json`."""
        return asdict(self)

    def count(self, status: str) -> int:
        """Number of layers with this status."""
        return sum(row.status == status for row in self.rows)

    def summary(self) -> str:
        """A few lines for people."""
        counts = ", ".join(
            f"{self.count(status)} {status}" for status in ("inflated", "copied", "new", "dropped")
        )
        return (
            f"{self.architecture} inflated by {self.options.method} ({self.way}): {counts}\n"
            f"parameters: {self.parameters_before:,} -> {self.parameters_after:,}\n"
            f"{self.proof}"
        )

    def table(self) -> str:
        """Markdown: every layer with its shapes before and after."""
        lines = [
            "| layer | status | 2D | video | parameters |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {row.layer} | {row.status} | {_shapes(row.before)} | {_shapes(row.after)} "
            f"| {row.parameters_before:,} -> {row.parameters_after:,} |"
            for row in self.rows
        ]
        return "\n".join(lines)

    def markdown(self) -> str:
        """Summary, choices and table, as in `inflation.md`."""
        options = "\n".join(f"- {name}: {value}" for name, value in asdict(self.options).items())
        return (
            f"# Inflation\n\n{self.summary()}\n\nLogits: {self.logits}.\n\n"
            f"## Options\n\n{options}\n\n## Layers\n\n{self.table()}\n"
        )


def make_rows(
    before: State,
    after: State,
    origin: Mapping[str, str],
    learnt: AbstractSet[str],
    layer_of: Callable[[str], str],
) -> tuple[LayerRow, ...]:
    """Rows in the order of the video network, dropped layers last.

    `origin` names the 2D tensor that a tensor of the video network came from, where there is one;
    `learnt` are the names, of both sides, that are parameters and not buffers; `layer_of` gives the
    layer that a tensor of the video network belongs to.
    """
    layers: dict[str, list[str]] = {}
    for name in after:
        layers.setdefault(layer_of(name), []).append(name)
    rows = []
    for layer, names in layers.items():
        sources = {origin[name]: before[origin[name]] for name in names if name in origin}
        status = _status([(after[name], sources.get(origin.get(name, ""))) for name in names])
        tensors = {name: after[name] for name in names}
        rows.append(_row(layer, status, sources, tensors, learnt))
    gone: dict[str, dict[str, Tensor]] = {}
    for name in before.keys() - set(origin.values()):
        gone.setdefault(name.rpartition(".")[0], {})[name] = before[name]
    rows += [_row(layer, "dropped", tensors, {}, learnt) for layer, tensors in gone.items()]
    return tuple(rows)


def _status(pairs: Sequence[tuple[Tensor, Tensor | None]]) -> str:
    """New without a source, copied when all is equal, inflated when shapes or values changed."""
    sources = [(tensor, source) for tensor, source in pairs if source is not None]
    if not sources:
        return "new"
    same = all(
        tensor.shape == source.shape and torch.equal(tensor, source) for tensor, source in sources
    )
    return "copied" if same and len(sources) == len(pairs) else "inflated"


def _row(
    layer: str, status: str, before: State, after: State, learnt: AbstractSet[str]
) -> LayerRow:
    return LayerRow(
        layer,
        status,
        {_short(name, layer): list(tensor.shape) for name, tensor in before.items()},
        {_short(name, layer): list(tensor.shape) for name, tensor in after.items()},
        sum(tensor.numel() for name, tensor in before.items() if name in learnt),
        sum(tensor.numel() for name, tensor in after.items() if name in learnt),
    )


def _short(name: str, layer: str) -> str:
    return name.removeprefix(f"{layer}.")


def _shapes(shapes: Mapping[str, Sequence[int]]) -> str:
    listed = (f"{name} {'×'.join(map(str, shape)) or '1'}" for name, shape in shapes.items())
    return ", ".join(listed) or "–"
