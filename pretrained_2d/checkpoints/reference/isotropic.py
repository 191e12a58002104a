"""The isotropic network of the public code: `layers.0.layer.kernel.0.C`, encoder and decoder."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from pretrained_2d.checkpoints.reference.saved import Saved
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.isotropic import Isotropic, IsotropicConfig


def read_isotropic(saved: Saved, sizes: Sequence[int], options: Mapping[str, Any]) -> nn.Module:
    """Build the network that the names and shapes describe, and fill it."""
    depth = saved.count(r"layers\.(\d+)\.layer\.")
    if depth == 0:
        raise CheckpointError(
            "not an isotropic network of the public code (expected names such as layers.0.layer.D)"
        )
    if "layers.0.norm.norm.m" in saved:
        raise CheckpointError("norms with one mean and scale for all channels are not read")
    encoder, decoder = _ends(saved)
    found: dict[str, Any] = {
        "depth": depth,
        "width": saved.shape(f"{encoder}.weight")[0],
        "num_classes": saved.shape(f"{decoder}.weight")[0],
        "ndim": len(sizes),
        "image_size": sizes[-1],
        **_mixer_options(saved),
    }
    if len(sizes) > 1 and sizes[-1] != sizes[-2]:
        found["image_size"] = list(sizes[-2:])
    if len(sizes) == 3:
        found["num_frames"] = sizes[0]
    saved.move(encoder, "encoder")
    for block in range(depth):
        _move_block(saved, block, found["mixer"], sizes)
    saved.move_norm("norm", "norm")
    saved.move(decoder, "head")
    first = "blocks.0.mixer.mixer"
    if first in saved.layers:
        found["axis"] = saved.axis_options(first, -1)
        if len(sizes) == 3:
            found["time_axis"] = saved.axis_options(first, 0)
    return saved.fill(lambda all_: Isotropic(IsotropicConfig(**all_)), {**found, **options})


def _mixer_options(saved: Saved) -> dict[str, Any]:
    if saved.num_axes("layers.0.layer"):
        return {"mixer": "s4nd"}
    kernel = saved.shape("layers.0.layer.conv2d.weight")[-1]
    depthwise = "layers.0.layer.linear.weight" in saved
    return {"mixer": "conv" if depthwise else "dense", "kernel": kernel}


def _move_block(saved: Saved, block: int, mixer: str, sizes: Sequence[int]) -> None:
    theirs, ours = f"layers.{block}", f"blocks.{block}"
    saved.move_norm(f"{theirs}.norm", f"{ours}.norm")
    if mixer == "s4nd":
        saved.move_s4nd(f"{theirs}.layer", f"{ours}.mixer.mixer", sizes)
        saved.move_linear(f"{theirs}.layer.output_linear.0", f"{ours}.mixer.linear")
        return
    saved.move(f"{theirs}.layer.conv2d", f"{ours}.mixer.conv")
    # Their convolution runs on (batch, channels, width, height).
    kernel = saved.state[f"{ours}.mixer.conv.weight"]
    saved.state[f"{ours}.mixer.conv.weight"] = kernel.transpose(-1, -2).contiguous()
    if mixer == "conv":
        saved.move_linear(f"{theirs}.layer.linear", f"{ours}.mixer.linear")


def _ends(saved: Saved) -> tuple[str, str]:
    """The linear layers before and after the body, under any names."""
    names = [
        name.removesuffix(".weight")
        for name, tensor in saved.tensors.items()
        if not name.startswith("layers.") and name.endswith(".weight") and tensor.ndim == 2
    ]
    encoders = [name for name in names if saved.shape(f"{name}.weight")[1] == 3]
    decoders = [name for name in names if name not in encoders]
    if len(encoders) != 1 or len(decoders) != 1:
        raise CheckpointError(
            "expected one linear layer from 3 channels and one to the classes beside the layers, "
            f"found {names or 'none'}; save encoder and decoder with the network"
        )
    return encoders[0], decoders[0]
