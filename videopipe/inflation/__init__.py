"""Inflate a 2D network along time, and test that a still video keeps its 2D logits.

`inflate(module, method="s4nd")` takes any `nn.Module` that classifies images;
`inflate_checkpoint(folder, out, options)` takes a checkpoint folder and writes another;
`Stream(network)` runs a causally inflated network frame by frame.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopipe.inflation.folded import FoldedNetwork, inflate
    from videopipe.inflation.operation import inflate_checkpoint
    from videopipe.inflation.options import InflationOptions
    from videopipe.inflation.proof import Proof, boring_video_test
    from videopipe.inflation.stream import Stream

__all__ = [
    "FoldedNetwork",
    "InflationOptions",
    "Proof",
    "Stream",
    "boring_video_test",
    "inflate",
    "inflate_checkpoint",
]

# Loaded on first use: reading the options of a stage must not import torch.
_HOMES = {
    "FoldedNetwork": "folded",
    "InflationOptions": "options",
    "Proof": "proof",
    "Stream": "stream",
    "boring_video_test": "proof",
    "inflate": "folded",
    "inflate_checkpoint": "operation",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
