"""The embedding of a clip: the input of the classifier of a network, or any layer's output."""

from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.networks.layers.convolution import fold_time
from videopipe.errors import VideopipeError

MOST_NAMES = 8  # layers that an error lists


class ClipEmbedder(nn.Module):
    """`embedder(clips) -> (batch, features)`, or (batch, steps × features) with `per_step`.

    A step is a frame for an image network, else what the layer has left of the time axis. The
    output of a layer is averaged over positions, and over steps without `per_step`. Images are
    square, so two equal sizes show which of its axes are height and width: (…, channels, height,
    width), (…, height, width, channels), and tokens (…, positions, channels).
    """

    def __init__(
        self, network: nn.Module, card: ModelCard, layer: str | None = None, *, per_step: bool
    ) -> None:
        super().__init__()
        self.network, self.layer, self.per_step = network, layer, per_step
        self.images = card.ndim == 2
        if layer is not None:
            find_layer(network, layer)

    def forward(self, clips: Tensor) -> Tensor:
        """(batch, channels, time, height, width) -> (batch, features) or (batch, numbers)."""
        signal = fold_time(clips) if self.images else clips
        if self.layer is None and not (self.per_step and not self.images):
            features = self.network.embed(signal)  # type: ignore[operator]
        else:
            features = self._output(signal)
        steps = self._steps(features, len(clips))  # (batch, steps, features)
        return (steps.flatten(1) if self.per_step else steps.mean(1)).float()

    def _output(self, signal: Tensor) -> Tensor:
        """The output of the layer; without one, the input of the classifier."""
        seen: list[Any] = []
        network: Any = self.network
        if self.layer is None:
            hook = network.head.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        else:
            module = find_layer(network, self.layer)
            hook = module.register_forward_hook(lambda _, __, output: seen.append(output))
        with hook:
            network(signal)
        if not seen:
            name = "the classifier" if self.layer is None else f"layer {self.layer!r}"
            raise VideopipeError(f"{name} is not used when the network is applied; name a --layer")
        output = seen[-1][0] if isinstance(seen[-1], tuple | list) else seen[-1]
        if not isinstance(output, Tensor) or output.ndim < 2:
            raise VideopipeError(f"layer {self.layer!r} does not give a tensor; name another layer")
        return output

    def _steps(self, features: Tensor, batch: int) -> Tensor:
        """(batch [× steps], …) -> (batch, steps, features)."""
        if features.ndim == 5:  # (batch, channels, steps, height, width), or channels last
            _, first, second, third, last = features.shape
            if second == third and third != last:  # (batch, steps, height, width, channels)
                return features.mean((2, 3)).view(batch, first, last)
            return features.mean((3, 4)).mT
        if len(features) % batch:
            raise VideopipeError(
                f"layer {self.layer!r} gives {len(features)} outputs for {batch} clips; "
                "name another layer"
            )
        if features.ndim == 4:
            _, first, second, third = features.shape
            axes = (1, 2) if first == second != third else (2, 3)
            features = features.mean(axes)
        elif features.ndim == 3:
            features = features.mean(1)
        elif features.ndim > 5:
            raise VideopipeError(
                f"layer {self.layer!r} gives {features.ndim} axes; name another layer"
            )
        return features.reshape(batch, -1, features.shape[-1])


def find_layer(network: nn.Module, name: str) -> nn.Module:
    """The module called `name`; the error for an unknown one names the nearest."""
    names = [known for known, _ in network.named_modules() if known]
    if name in names:
        return network.get_submodule(name)
    near = get_close_matches(name, names, MOST_NAMES, 0.4) or names[-MOST_NAMES:]
    raise VideopipeError(
        f"the network has no layer {name!r}; it has {len(names)}, such as {', '.join(near)}"
    )


def measure(embedder: ClipEmbedder, card: ModelCard, num_frames: int) -> tuple[int, int]:
    """(steps, features) of a clip, from one pass over a black one; steps is 1 for whole clips."""
    size = card.preprocessing.image_size
    clip = torch.zeros(1, 3, num_frames, size, size)
    with torch.inference_mode():
        total = embedder(clip).shape[1]
        if not embedder.per_step:
            return 1, total
        embedder.per_step = False
        features = embedder(clip).shape[1]
        embedder.per_step = True
    steps = total // features
    if steps > num_frames or (embedder.images and steps != num_frames):
        raise VideopipeError(
            f"layer {embedder.layer!r} gives {steps} outputs for {num_frames} frames, so they are "
            "not embeddings of frames; name another layer"
        )
    if steps == 1 and num_frames > 1:
        shown = embedder.layer or "the input of the classifier"
        raise VideopipeError(
            f"{shown} has no time axis, so there is no embedding per frame; use --per window, or "
            f"name a layer before the mean over time with --layer, such as "
            f"{', '.join(_layers_with_time(embedder.network, clip)[-3:]) or 'none of this network'}"
        )
    return steps, features


def _layers_with_time(network: nn.Module, clip: Tensor) -> list[str]:
    """Layers that give (1, channels, time, height, width) or one output per step, in order."""
    found: dict[str, None] = {}

    def note(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            if isinstance(output, Tensor) and output.ndim == 5 and output.shape[2] > 1:
                found[name] = None

        return hook

    handles = [
        module.register_forward_hook(note(name)) for name, module in network.named_modules() if name
    ]
    with torch.inference_mode():
        network(clip)
    for handle in handles:
        handle.remove()
    return list(found)
