"""`from_reference`: recognise the kind of a saved network and build it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from pretrained_2d.checkpoints.reference.convnext import read_convnext
from pretrained_2d.checkpoints.reference.isotropic import read_isotropic
from pretrained_2d.checkpoints.reference.saved import LAYER_OPTIONS, Saved, as_tensors
from pretrained_2d.checkpoints.reference.vit import read_vit
from pretrained_2d.errors import CheckpointError

# The beginning of the names of each kind of network, after the prefixes of training programs.
ANCHORS = {
    "convnext": "stages.0.blocks.0.",
    "isotropic": "layers.0.layer.",
    "vit": "blocks.0.layer.",
}
# Names of options in the public code -> ours.
ALIASES = {
    "disc": "discretisation",
    "trank": "rank",
    "stem_l_max": "stem_kernel",
    "downsample_act": "downsample_activation",
    "downsample_glu": "downsample_gated",
    "patch_size": "patch",
    "spatial_patch_size": "patch",
    "tempor_patch_size": "temporal_patch",
}
Reader = Callable[[Saved, Sequence[int], Mapping[str, Any]], nn.Module]
READERS: dict[str, Reader] = {
    "convnext": read_convnext,
    "isotropic": read_isotropic,
    "vit": read_vit,
}
PATTERNS = {
    "convnext": r"stages\.0\.blocks\.0\.conv_dw\.(kernel\.\d+\.C|conv\.weight)$",
    "isotropic": r"layers\.0\.layer\.(kernel\.\d+\.C|conv2d\.weight)$",
    "vit": r"blocks\.0\.layer\.(kernel\.\d+\.C)$",
}


def recognise(tensors: Mapping[str, Tensor]) -> tuple[str, int] | None:
    """The kind of network and its number of axes, if the public S4ND code saved these names."""
    for kind, pattern in PATTERNS.items():
        names = [name for name in tensors if re.search(rf"(?:^|\.){pattern}", name)]
        if names:
            kernels = [name for name in names if name.endswith(".C")]
            is_factored = any(name.endswith("conv_dw.conv.time_weight") for name in tensors)
            ndim = len(kernels) or tensors[names[0]].ndim - 2 + int(is_factored)
            return kind, 2 if kind == "vit" else ndim
    return None


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
    options = {ALIASES.get(name, name): value for name, value in options.items()}
    layer_options = {name: options.pop(name) for name in LAYER_OPTIONS if name in options}
    saved = Saved(as_tensors(state_dict, ANCHORS[architecture]), layer_options)
    try:
        return READERS[architecture](saved, sizes, options).eval()
    except CheckpointError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"the {architecture} of the state dict: {error}") from error
