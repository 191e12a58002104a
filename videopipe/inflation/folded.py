"""A 2D network as a video network: its own graph on folded frames, with layers that mix time."""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pretrained_2d.networks.layers.convolution import fold_patches
from pretrained_2d.networks.libraries.classifying_layers import (
    classifying_layers,
    pooled_features,
    seen_by,
)
from videopipe.inflation.feature_maps import FeatureLevel, feature_levels, feature_maps
from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch, restored_in_backward
from videopipe.inflation.mixing.replacements import replacement
from videopipe.inflation.mixing.temporal_patch import PatchPixels
from videopipe.inflation.mixing.time_kernel import TimeMixing, matrices_together
from videopipe.inflation.options import InflationOptions
from videopipe.inflation.planning.classifying_head import (
    check_num_classes,
    give_head,
    linear_head,
    replace_head,
)
from videopipe.inflation.planning.layer_plan import InflationPlan, make_plan
from videopipe.inflation.planning.survey import evaluating, parameter_like


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
        # Not a list of modules, which would register them a second time.
        self._mixers = tuple(m for m in network.modules() if isinstance(m, TimeMixing))
        heads = classifying_layers(network)
        self.head_name = plan.head if heads is None else next(iter(heads), None)
        self.classifier: nn.Module | None = None  # the head of an encoder that had none
        # Networks of pretrained_2d take a rate in space and give embeddings; others take images.
        takes_rate = "rate" in inspect.signature(network.forward).parameters
        self.is_ours = takes_rate and hasattr(network, "embed")

    @property
    def head(self) -> nn.Module:
        """The layer that gives one number for each class; Identity for an encoder."""
        if self.classifier is not None:
            return self.classifier
        if self.head_name is None:
            return nn.Identity()
        return self.network.get_submodule(self.head_name)

    @property
    def levels(self) -> tuple[FeatureLevel, ...]:
        """Name, channels and stride of the maps that `features` returns, as timm names them."""
        return feature_levels(self.network)

    def forward(self, clip: Tensor, rate: float | Sequence[float] = 1.0) -> Any:
        """(batch, channels, time, height, width) -> (batch, classes) logits.

        An encoder gives features in their place. Maps, of segmentation or of timm's
        `features_only`, become (batch, channels, time, height, width); lists and dictionaries of
        outputs stay lists and dictionaries.
        `rate` is the number of base samples per sample: one number, or (time, height, width).
        """
        if self.classifier is not None:
            return self.classifier(self.embed(clip, rate))
        frames = self._fold(clip, rate)
        with self._kernels_together():
            output = self.network(frames, *self._rate_in_space(rate))
        return self._unfolded(output)

    def embed(self, clip: Tensor, rate: float | Sequence[float] = 1.0) -> Tensor:
        """(batch, channels, time, height, width) -> (batch, features), the input of the head."""
        frames = self._fold(clip, rate)
        with self._kernels_together():
            if self.is_ours:
                features = self.network.embed(frames, *self._rate_in_space(rate))  # type: ignore[operator]
            elif self.head_name is not None:
                features = seen_by(self.network.get_submodule(self.head_name), self.network, frames)
            else:
                features = pooled_features(self.network, frames)
        return restored_in_backward(self._mean_over_time(features), self.batch)

    def features(
        self,
        clip: Tensor,
        names: Sequence[str | int] | None = None,
        rate: float | Sequence[float] = 1.0,
    ) -> list[Tensor]:
        """Maps (batch, channels, time, height, width) of the named levels; of all if None.

        A level is given by its name or its number in `levels`. Names of other modules are taken
        too. After temporal pooling there are fewer steps.
        """
        frames = self._fold(clip, rate)
        with self._kernels_together():
            found = feature_maps(self.network, frames, names)
        return [self._with_time(maps) for maps in found]

    def _kernels_together(self) -> AbstractContextManager[None]:
        """Around one pass: the state-space kernels of all layers are generated together."""
        return matrices_together(() if self.batch.streaming is not None else self._mixers)

    def _fold(self, clip: Tensor, rate: float | Sequence[float]) -> Tensor:
        """Check the clip, divide the batch, and fold time into it."""
        channels, patch = self.plan.in_channels, self.plan.options.temporal_patch
        if clip.ndim != 5 or clip.shape[1] != channels:
            axis = self.plan.options.axis
            raise ValueError(
                f"expected {'clips' if axis == 'time' else 'volumes'} of shape "
                f"(batch, {channels}, {axis}, height, width), got {tuple(clip.shape)}"
            )
        if clip.shape[2] < patch:
            word = self.plan.options.frame_word
            raise ValueError(
                f"a clip of {clip.shape[2]} {word}s is shorter than the temporal patch of {patch}"
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

    def _unfolded(self, output: Any) -> Any:
        """The output of the 2D network on folded frames, for clips."""
        if isinstance(output, Mapping):
            kind: Any = type(output)
            return kind(**{name: self._unfolded(part) for name, part in output.items()})
        if isinstance(output, list | tuple):
            return [self._unfolded(part) for part in output]
        return self._with_time(output) if isinstance(output, Tensor) else output

    def _with_time(self, folded: Tensor) -> Tensor:
        """Maps with time as their third axis; any other output averaged over time."""
        if folded.ndim != 4:
            return restored_in_backward(self._mean_over_time(folded), self.batch)
        clips = folded.reshape(self.batch.clips, -1, *folded.shape[1:])
        return restored_in_backward(clips.transpose(1, 2), self.batch)


def inflate(
    module: nn.Module,
    options: InflationOptions | None = None,
    *,
    image_size: int = 224,
    num_classes: int | None = None,
    head: str | None = None,
    **choices: Any,
) -> FoldedNetwork:
    """Any image network as a video network: `inflate(resnet, method="s3d", num_frames=16)`.

    The module is changed in place and becomes part of the result; copy it first to keep the 2D
    network. `choices` are fields of InflationOptions. `num_classes` gives a new head, also to an
    encoder. `head` names the classifying layer ("": there is none) where it cannot be found.
    Raises ValueError for choices that cannot work and InflationError for networks that cannot.
    """
    options = replace(options or InflationOptions(), **choices)
    if num_classes is not None:
        check_num_classes(num_classes)
        give_head(module, num_classes)
    plan = make_plan(module, options, image_size, head)
    folded = FoldedNetwork(module, plan)
    if num_classes is None:
        return folded
    if folded.head_name is not None:
        replace_head(module, folded.head_name, num_classes)
        return folded
    with torch.no_grad(), evaluating(folded):
        size = (1, plan.in_channels, options.num_frames, image_size, image_size)
        features = folded.embed(torch.zeros(size).to(parameter_like(module)))
    folded.classifier = linear_head(features.shape[1], num_classes).to(features)
    return folded
