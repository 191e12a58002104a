"""Which layers of a network learn, and how fast: freezing and layer-wise learning rates."""

from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from torch import nn

from videopipe.errors import DataError

Freeze = Literal["nothing", "backbone", "space"]


def layer_names(model: nn.Module, head: Collection[str]) -> list[str]:
    """The layers of a network from input to output, the head last; each has its learning rate.

    A layer is the innermost numbered block a parameter lies in ("stages.1.2"), or, outside of
    blocks, the module at the top ("stem"). This needs no knowledge of the architecture.
    """
    body = dict.fromkeys(layer_of(name) for name, _ in model.named_parameters() if name not in head)
    return [*body, "head"]


def layer_of(parameter: str) -> str:
    """ "stages.1.2.mlp.0.weight" -> "stages.1.2"; "stem.conv.weight" -> "stem".

    Numbers below a name that follows the block's own number belong to the block's inside.
    """
    parts = parameter.split(".")[:-1]
    first = next((place for place, part in enumerate(parts) if part.isdigit()), None)
    if first is None:
        return parts[0] if parts else parameter
    last = first
    while last + 1 < len(parts) and parts[last + 1].isdigit():
        last += 1
    # "stages.0.blocks.1": a container of blocks directly inside a numbered stage.
    if last + 2 < len(parts) and parts[last + 1] in CONTAINERS and parts[last + 2].isdigit():
        last += 2
    return ".".join(parts[: last + 1])


CONTAINERS = ("blocks", "layers", "stages")


def learning_rate_scale(
    model: nn.Module,
    *,
    head: Collection[str],
    time: Collection[str],
    decay: float,
    freeze: Freeze,
    time_scale: float = 1.0,
    freeze_patterns: Sequence[str] = (),
) -> Callable[[str], float]:
    """A factor of the learning rate for each parameter name: 1 at the head, × `decay` per layer
    towards the input, 0 where frozen.

    `head` and `time` are names of parameters: those of the classifier and of the time axis.
    `freeze` is "backbone" for a linear probe, "space" to train only time and head.
    `time_scale` is a further factor of the time axis.
    """
    names = [name for name, _ in model.named_parameters()]
    unmatched = [p for p in freeze_patterns if not any(fnmatchcase(name, p) for name in names)]
    if unmatched:
        raise DataError(
            f"freeze_patterns: {', '.join(unmatched)} match no parameter of this network; its "
            f"parameters are named like {', '.join(names[:: max(1, len(names) // 4)][:5])}"
        )
    order = layer_names(model, head)
    depth_from_head = {layer: len(order) - 1 - place for place, layer in enumerate(order)}
    learns = {"nothing": set(names), "backbone": set(head), "space": {*head, *time}}[freeze]

    def scale(name: str) -> float:
        if name not in learns or any(fnmatchcase(name, pattern) for pattern in freeze_patterns):
            return 0.0
        factor = time_scale if name in time else 1.0
        return float(factor * decay ** depth_from_head["head" if name in head else layer_of(name)])

    factors = {name: scale(name) for name in names}
    if not any(factors.values()):
        raise DataError("freezing leaves no parameter to train; freeze less")
    return factors.__getitem__


def freeze_batch_norm(model: nn.Module) -> int:
    """Let every batch norm use its stored statistics also in training; returns how many.

    The batches of fine-tuning are small and their frames alike, so their statistics are poor.
    """
    found = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for module in found:
        module.register_forward_pre_hook(_as_in_evaluation)
    return len(found)


def _as_in_evaluation(module: nn.Module, _: Any) -> None:
    # A hook survives train(), copies of the network, and leaves the state dict alone.
    module.training = False
