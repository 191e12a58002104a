"""Layers of a 2D network followed by a module along time."""

from typing import Any

from torch import Tensor, nn

from videopipe.inflation.mixing.folding.folded_batch import FoldedBatch


class TimePooling(nn.Module):
    """Averages neighbouring steps, two by two; a last odd step is left out."""

    def __init__(self, batch: FoldedBatch, *, reduction: int = 1) -> None:
        super().__init__()
        self.batch = batch
        self.reduction = reduction  # of the input steps

    def forward(self, folded: Tensor) -> Tensor:
        """(clips × steps × parts, *rest) -> (clips × steps//2 × parts, *rest)."""
        signal = self.batch.unfold(folded, self.reduction)
        pairs = signal.shape[1] // 2
        paired = signal[:, : 2 * pairs].reshape(len(signal), pairs, 2, signal.shape[2])
        return paired.mean(2).reshape(-1, *folded.shape[1:])


class AroundLayer(nn.Module):
    """Replaces the 2D layer `spatial` in a network that reads attributes of its layers."""

    spatial: nn.Module

    def __getattr__(self, name: str) -> Any:
        """An attribute of this module, else one of the 2D layer, such as its stride."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("spatial"), name)


class TimeMixed(AroundLayer):
    """A 2D layer, then time: `spatial` frame by frame, `time` over the frames of its output."""

    def __init__(self, spatial: nn.Module, time: nn.Module) -> None:
        super().__init__()
        self.spatial = spatial
        self.time = time

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What `spatial` gives, mixed along time; of several outputs the first."""
        output = self.spatial(*args, **kwargs)
        if isinstance(output, tuple):
            return (self.time(output[0]), *output[1:])
        return self.time(output)
