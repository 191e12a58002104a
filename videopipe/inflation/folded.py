"""A 2D network as a video network: its own graph on folded frames, with layers that mix time."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from pretrained_2d.networks.convolution import fold_patches
from videopipe.inflation.layer_plan import InflationPlan, make_plan
from videopipe.inflation.mixing.folded_batch import FoldedBatch, restored_in_backward
from videopipe.inflation.mixing.replacements import replacement
from videopipe.inflation.mixing.temporal_patch import PatchPixels
from videopipe.inflation.options import InflationError, InflationOptions


class FoldedNetwork(nn.Module):
    """`net(clip, rate) -> logits` for clips (batch, channels, time, height, width).

    The frames of all clips run through the 2D graph as one batch; the layers of the plan unfold
    time and mix it. The logits of the steps are averaged after the head, which for a linear head
    is the head of the averaged features; on a still video they are the 2D logits. Batch norm sees
    the frames of all clips, so its statistics run over batch, time and space, exactly as those of
    a BatchNorm3d. Dropout and drop path draw for each frame.
    """

    def __init__(self, network: nn.Module, plan: InflationPlan) -> None:
        super().__init__()
        self.plan = plan
        self.batch = FoldedBatch()
        roles = {layer.role for layer in plan.layers}
        patch = plan.options.temporal_patch
        self.patch = (
            PatchPixels(plan.in_channels, patch) if patch > 1 and "patch" not in roles else None
        )
        # Pooling last: a pooled block may itself hold layers that were replaced.
        for layer in sorted(plan.layers, key=lambda layer: layer.role == "pool"):
            parent = network.get_submodule(layer.name.rpartition(".")[0])
            new = replacement(network.get_submodule(layer.name), layer, plan, self.batch)
            parent.add_module(layer.name.rpartition(".")[2], new)
        self.network = network
        # Networks of pretrained_2d take a rate in space and give embeddings; others take images.
        takes_rate = "rate" in inspect.signature(network.forward).parameters
        self.is_ours = takes_rate and hasattr(network, "embed")

    @property
    def head(self) -> nn.Module:
        """The layer that gives one number for each class."""
        head = getattr(self.network, "head", None)
        if isinstance(head, nn.Module):
            return head
        if self.plan.head is None:
            raise InflationError("this network has no single classifying layer")
        return self.network.get_submodule(self.plan.head)

    def forward(self, clip: Tensor, rate: float | Sequence[float] = 1.0) -> Tensor:
        """(batch, channels, time, height, width) -> (batch, classes) logits.

        `rate` is the number of base samples per sample: one number, or (time, height, width).
        """
        logits = self.network(self._fold(clip, rate), *self._rate_in_space(rate))
        return restored_in_backward(self._mean_over_time(logits), self.batch)

    def embed(self, clip: Tensor, rate: float | Sequence[float] = 1.0) -> Tensor:
        """(batch, channels, time, height, width) -> (batch, features), what the head sees."""
        frames = self._fold(clip, rate)
        if self.is_ours:
            features = self.network.embed(frames, *self._rate_in_space(rate))  # type: ignore[operator]
        else:
            features = self._seen_by_head(frames)
        return restored_in_backward(self._mean_over_time(features), self.batch)

    def _fold(self, clip: Tensor, rate: float | Sequence[float]) -> Tensor:
        """Check the clip, divide the batch, and fold time into it."""
        channels, patch = self.plan.in_channels, self.plan.options.temporal_patch
        if clip.ndim != 5 or clip.shape[1] != channels:
            raise ValueError(
                f"expected clips of shape (batch, {channels}, time, height, width), "
                f"got {tuple(clip.shape)}"
            )
        if clip.shape[2] < patch:
            raise ValueError(
                f"a clip of {clip.shape[2]} frames is shorter than the temporal patch of {patch}"
            )
        self.batch.clips = clip.shape[0]
        self.batch.steps = clip.shape[2] // patch
        self.batch.rate = float(rate if isinstance(rate, int | float) else rate[0])
        frames = fold_patches(clip, patch)
        return frames if self.patch is None else self.patch(frames)

    def _rate_in_space(self, rate: float | Sequence[float]) -> tuple[float | Sequence[float], ...]:
        """Arguments that pass the rate on, where the 2D network takes one."""
        if not self.is_ours:
            return ()
        return (rate if isinstance(rate, int | float) else tuple(rate[1:]),)

    def _mean_over_time(self, folded: Tensor) -> Tensor:
        return folded.reshape(self.batch.clips, -1, *folded.shape[1:]).mean(1)

    def _seen_by_head(self, frames: Tensor) -> Tensor:
        seen: list[Tensor] = []

        def keep(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen.append(inputs[0])

        with self.head.register_forward_pre_hook(keep):
            self.network(frames)
        return seen[-1].flatten(1)


def inflate(
    module: nn.Module,
    options: InflationOptions | None = None,
    *,
    image_size: int = 224,
    num_classes: int | None = None,
    **choices: Any,
) -> FoldedNetwork:
    """Any image classifier as a video classifier: `inflate(resnet, method="s3d", num_frames=16)`.

    The module is changed in place and becomes part of the result; copy it first to keep the 2D
    network. `choices` are fields of InflationOptions; `num_classes` gives a new head.
    Raises ValueError for choices that cannot work and InflationError for networks that cannot.
    """
    options = replace(options or InflationOptions(), **choices)
    plan = make_plan(module, options, image_size)
    folded = FoldedNetwork(module, plan)
    if num_classes is not None:
        replace_head(module, plan.head, num_classes)
    return folded


def replace_head(network: nn.Module, name: str | None, num_classes: int) -> None:
    """A new classifying layer: truncated normal weights of 0.02, no bias at the start."""
    if name is None:
        raise InflationError("the network has no single classifying layer, so none can be replaced")
    if num_classes < 1:
        raise InflationError(f"num_classes must be at least 1, got {num_classes}")
    old = network.get_submodule(name)
    new: nn.Module
    if isinstance(old, nn.Linear):
        new = nn.Linear(old.in_features, num_classes)
    elif isinstance(old, nn.Conv2d) and old.kernel_size == (1, 1):
        new = nn.Conv2d(old.in_channels, num_classes, 1)
    else:
        raise InflationError(f"the head {name} is a {type(old).__name__}; replace it by hand")
    assert isinstance(new.weight, Tensor)
    assert isinstance(new.bias, Tensor)
    nn.init.trunc_normal_(new.weight, std=0.02)
    nn.init.zeros_(new.bias)
    like = next(old.parameters())
    parent = network.get_submodule(name.rpartition(".")[0])
    parent.add_module(name.rpartition(".")[2], new.to(like.device, like.dtype))
