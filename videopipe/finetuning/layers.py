"""Freezing and layer-wise learning rates."""

from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from videopipe.errors import DataError
from videopipe.finetuning.finetune_config import Freeze
from videopipe.inflation.mixing.kernel3d import FoldedConv3d


def layer_names(model: nn.Module, head: Collection[str]) -> list[str]:
    """The layers of a network from input to output, the head last.

    A layer is the innermost numbered block of a parameter ("stages.1.2"), or, outside of blocks,
    its top-level module ("stem").
    """
    body = dict.fromkeys(layer_of(name) for name, _ in model.named_parameters() if name not in head)
    return [*body, "head"]


def layer_of(parameter: str) -> str:
    """ "stages.1.2.mlp.0.weight" -> "stages.1.2"; "stem.conv.weight" -> "stem".

    Numbers below a named module inside a block do not start another layer.
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
    """Make every batch norm use its stored statistics in training; returns how many.

    The batches of fine-tuning are small and their frames similar, so their statistics are noisy.
    """
    found = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for module in found:
        module.register_forward_pre_hook(_as_in_evaluation)
    return len(found)


def _as_in_evaluation(module: nn.Module, _: Any) -> None:
    # A hook is kept by train() and by copies of the network, and adds nothing to the state dict.
    module.training = False


@torch.no_grad()
def lay_channels_last(model: nn.Module) -> None:
    """Store the weights of 2D convolutions with channels last, which activations then follow.

    A folded network trains twice as fast this way on a CPU (EfficientNet-Lite0, 16 clips of 8
    frames of 40 × 64 pixels: 0.5 s a step instead of 1.1 s). Values stay the same. Each tap of a
    folded 3D kernel is treated as a 2D convolution.
    """
    for module in model.modules():
        if isinstance(module, FoldedConv3d) and module.weight.ndim == 5:
            taps = module.weight.movedim(module.time_dim, 0)
            taps = taps.movedim(2, -1).contiguous().movedim(-1, 2)
            module.weight.data = taps.movedim(0, module.time_dim)
        if isinstance(module, nn.Conv2d) and isinstance(module.weight, nn.Parameter):
            module.weight.data = module.weight.contiguous(memory_format=torch.channels_last)
