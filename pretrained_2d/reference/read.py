"""`from_reference`: which kind of network, what the caller adds, and the one way in."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from pretrained_2d.errors import CheckpointError
from pretrained_2d.reference.convnext import read_convnext
from pretrained_2d.reference.isotropic import read_isotropic
from pretrained_2d.reference.saved import LAYER_OPTIONS, Saved, as_tensors
from pretrained_2d.reference.vit import read_vit

Reader = Callable[[Saved, Sequence[int], Mapping[str, Any]], nn.Module]
READERS: dict[str, Reader] = {
    "convnext": read_convnext,
    "isotropic": read_isotropic,
    "vit": read_vit,
}


def from_reference(
    state_dict: Mapping[str, Any],
    architecture: str,
    *,
    input_size: int | Sequence[int],
    **options: Any,
) -> nn.Module:
    """The network that was saved by the public S4ND code, in eval mode.

    architecture: `convnext` (2D and 3D), `isotropic` or `vit`. input_size: samples along each axis
    of the inputs it was trained on, (height, width) or (time, height, width); one number for a
    square image. Depths, widths, axes and mixers are read off the names and shapes. What these do
    not say may be given: `bidirectional`, `discretisation`, `bandlimit` and `rank` of the S4ND
    layers, and any option of our network (`downsample_activation`, `temporal_strides`, …).
    Raises CheckpointError that names what is missing or left over.
    """
    if architecture not in READERS:
        raise CheckpointError(
            f"architecture is {architecture!r}; the public code saves {', '.join(READERS)}"
        )
    sizes = (input_size, input_size) if isinstance(input_size, int) else tuple(input_size)
    layer_options = {name: options.pop(name) for name in LAYER_OPTIONS if name in options}
    saved = Saved(as_tensors(state_dict), layer_options)
    try:
        return READERS[architecture](saved, sizes, options).eval()
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"the {architecture} of the state dict: {error}") from error
