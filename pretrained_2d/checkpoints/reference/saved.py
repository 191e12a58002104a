"""A state dict of the public code, read name by name; a tensor that is not used is an error."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

import s4nd
from pretrained_2d.errors import CheckpointError
from s4nd import S4ND, AxisConfig

LAYER_OPTIONS = ("bidirectional", "discretisation", "bandlimit", "rank")


class Saved:
    """The tensors that are not yet taken, and the S4ND layers made of those that are."""

    def __init__(self, tensors: Mapping[str, Tensor], layer_options: Mapping[str, Any]) -> None:
        self.tensors = dict(tensors)
        self.layer_options = dict(layer_options)
        self.layers: dict[str, S4ND] = {}
        self.state: dict[str, Tensor] = {}  # under our names

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor that must be there."""
        if name not in self.tensors:
            near = ", ".join(list(self.tensors)[:6])
            raise CheckpointError(f"the state dict has no {name!r}; it has {near}, …")
        return tuple(self.tensors[name].shape)

    def count(self, pattern: str) -> int:
        """How many numbers the one group of `pattern` takes, from 0 without a gap."""
        found = {int(match[1]) for name in self.tensors if (match := re.match(pattern, name))}
        if found != set(range(len(found))):
            raise CheckpointError(f"numbers {sorted(found)} of {pattern!r} have a gap")
        return len(found)

    def move(self, theirs: str, ours: str) -> None:
        """Take weight and bias of a layer."""
        for part in ("weight", "bias"):
            self.shape(f"{theirs}.{part}")
            self.state[f"{ours}.{part}"] = self.tensors.pop(f"{theirs}.{part}")

    def move_linear(self, theirs: str, ours: str) -> None:
        """As `move`, flat: a 1×1 convolution is a linear layer."""
        self.move(theirs, ours)
        self.state[f"{ours}.weight"] = self.state[f"{ours}.weight"].flatten(1)

    def move_norm(self, theirs: str, ours: str) -> None:
        """As `move`, of a norm that may lie inside a wrapper of the same name."""
        inner = f"{theirs}.norm"
        self.move(inner if f"{inner}.weight" in self else theirs, ours)

    def move_tensor(self, theirs: str, ours: str) -> None:
        """Take one tensor."""
        self.shape(theirs)
        self.state[ours] = self.tensors.pop(theirs)

    def num_axes(self, prefix: str) -> int:
        """Axes of the S4ND layer under a prefix; 0 if there is none."""
        return self.count(rf"{re.escape(prefix)}\.kernel\.(\d+)\.C$")

    def stored_sizes(self, prefix: str) -> list[int] | None:
        """The sizes the layer was trained with, if the file has them (low-rank state spaces)."""
        names = [f"{prefix}.kernel.{axis}.l_kernel" for axis in range(self.num_axes(prefix))]
        if not all(name in self for name in names) or not names:
            return None
        sizes = [int(self.tensors[name]) for name in names]
        return sizes if all(sizes) else None

    def move_s4nd(
        self, theirs: str, ours: str, sizes: Sequence[int], out_channels: int | None = None
    ) -> None:
        """Take an S4ND layer: its kernels, its skip, and the sizes it was trained with."""
        start = f"{theirs}."
        names = [
            name
            for name in self.tensors
            if name.startswith(start) and name[len(start) :].split(".")[0] in ("D", "kernel")
        ]
        part = {name[len(start) :]: self.tensors.pop(name) for name in names}
        options = {"bidirectional": _is_bidirectional(part, out_channels), **self.layer_options}
        for axis in range(len(sizes), 8):  # kernels beyond the axes of the signal are never used
            part = {name: t for name, t in part.items() if not name.startswith(f"kernel.{axis}.")}
        try:
            layer = s4nd.from_reference(part, size=sizes, out_channels=out_channels, **options)
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"S4ND layer {theirs!r} of the state dict: {error}") from error
        self.layers[ours] = layer
        for name, tensor in layer.state_dict().items():
            self.state[f"{ours}.{name}"] = tensor

    def axis_options(self, layer: str, position: int) -> dict[str, Any]:
        """The settings of one axis of an S4ND layer, as keywords of AxisConfig without the size."""
        options = asdict(self.layers[layer].axes[position])
        for name in ("size", "period"):
            del options[name]
        if options["copies"] == self.layers[layer].channels > 1:
            options["copies"] = "channels"
        defaults = asdict(AxisConfig(1))
        return {k: v for k, v in options.items() if v != defaults[k] or k == "basis"}

    def fill(
        self, build: Callable[[dict[str, Any]], nn.Module], options: dict[str, Any]
    ) -> nn.Module:
        """Build the network and give it its weights; raises if a tensor is left over.

        S4ND layers whose axes differ from those of the other layers go to the option `layers`.
        """
        if self.tensors:
            names = ", ".join(f"{n} {tuple(t.shape)}" for n, t in list(self.tensors.items())[:8])
            raise CheckpointError(
                f"{len(self.tensors)} tensors have no place in the network: {names}"
            )
        network = build(options)
        different = {
            name: {"axes": [asdict(axis) for axis in layer.axes], "rank": layer.rank}
            for name, layer in self.layers.items()
            if _meaning(network.get_submodule(name)) != _meaning(layer)
        }
        if different:
            network = build({**options, "layers": different})
        network.load_state_dict(self.state)
        return network


def _meaning(layer: nn.Module) -> list[tuple[Any, ...]]:
    """The axis options that the weights need; basis and start matter for initialisation only."""
    assert isinstance(layer, S4ND)
    names = ("size", "state", "copies", "bidirectional", "bandlimit", "rule", "num_low_rank")
    return [
        (layer.rank, axis.period or axis.size, *(getattr(axis, name) for name in names))
        for axis in layer.axes
    ]


def _is_bidirectional(part: Mapping[str, Tensor], out_channels: int | None) -> bool:
    if "kernel.0.C" not in part or "D" not in part:
        return True
    outputs = out_channels or len(part["D"])
    return len(part["kernel.0.C"]) % (2 * outputs) == 0


def as_tensors(state_dict: Mapping[str, Any], anchor: str) -> dict[str, Tensor]:
    """Convert arrays to tensors; remove the part before `anchor` from all names."""
    for wrapper in ("state_dict", "model_state_dict"):
        inner = state_dict.get(wrapper)
        if isinstance(inner, Mapping):
            state_dict = inner
    tensors = {name: torch.as_tensor(value) for name, value in state_dict.items()}
    prefix = next((name.partition(anchor)[0] for name in tensors if anchor in name), "")
    stripped = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    return stripped if len(stripped) == len(tensors) else tensors
