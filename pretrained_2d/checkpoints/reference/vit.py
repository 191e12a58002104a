"""The vision transformer of the public code, whose even blocks mix tokens and odd ones channels."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from pretrained_2d.checkpoints.reference.saved import Saved
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.vit import ViT, ViTConfig


def read_vit(saved: Saved, sizes: Sequence[int], options: Mapping[str, Any]) -> nn.Module:
    """Build the network that the names and shapes describe, and fill it."""
    blocks = saved.count(r"blocks\.(\d+)\.norm\.(?:norm\.)?weight$")
    if blocks == 0 or not saved.num_axes("blocks.0.layer"):
        raise CheckpointError(
            "not an S4ND-ViT of the public code (expected names such as blocks.0.layer.kernel.0.C)"
        )
    if len(sizes) != 2 or sizes[0] != sizes[1]:
        raise CheckpointError(f"input_size is {tuple(sizes)}; a ViT takes square images")
    width, _, _, patch = saved.shape("patch_embed.proj.weight")
    found: dict[str, Any] = {
        "mixer": "s4nd",
        "depth": blocks // 2,
        "width": width,
        "patch": patch,
        "image_size": sizes[0],
        "num_classes": saved.shape("head.weight")[0],
        "outputs": saved.shape("blocks.0.layer.D")[0],
        "class_token": "cls_token" in saved,
        "positions": "pos_embed" in saved,
    }
    saved.move("patch_embed.proj", "patches")
    for theirs, ours in (("cls_token", "class_token"), ("pos_embed", "positions")):
        if theirs in saved:
            saved.move_tensor(theirs, ours)
    count = ViTConfig(**found).num_tokens
    for block in range(blocks // 2):
        _move_block(saved, block, count)
    saved.move_norm("norm", "norm")
    saved.move("head", "head")
    found["axis"] = saved.axis_options("blocks.0.mixer.mixer", 0)
    return saved.fill(lambda all_: ViT(ViTConfig(**all_)), {**found, **options})


def _move_block(saved: Saved, block: int, count: int) -> None:
    tokens, channels, ours = f"blocks.{2 * block}", f"blocks.{2 * block + 1}", f"blocks.{block}"
    saved.move_norm(f"{tokens}.norm", f"{ours}.norm1")
    saved.move_s4nd(f"{tokens}.layer", f"{ours}.mixer.mixer", [count])
    saved.move_linear(f"{tokens}.layer.output_linear.0", f"{ours}.mixer.linear")
    saved.move_norm(f"{channels}.norm", f"{ours}.norm2")
    saved.move_linear(f"{channels}.layer.ff.0.0", f"{ours}.mlp.fc1")
    saved.move_linear(f"{channels}.layer.ff.2", f"{ours}.mlp.fc2")
