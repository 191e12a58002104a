"""ConvNeXt and ConvNeXt3D of the public code: `stages.0.blocks.0.conv_dw.kernel.0.C`, …"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from pretrained_2d.checkpoints.reference.saved import Saved
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.convnext import ConvNeXt, ConvNeXtConfig

FIRST = "stages.0.blocks.0.conv_dw"


def read_convnext(saved: Saved, sizes: Sequence[int], options: Mapping[str, Any]) -> nn.Module:
    """Build the network that the names and shapes describe, and fill it."""
    found = {**_shape_of_network(saved, sizes), **_stem_options(saved, sizes), **options}
    config = ConvNeXtConfig(**{**found, "axis": {}, "time_axis": {}})
    _move_stem(saved, config)
    for stage in range(4):
        if stage:
            _move_downsample(saved, config, stage)
        for block in range(config.depths[stage]):
            _move_block(saved, config, stage, block)
    saved.move("head.norm", "norm")
    saved.move("head.fc", "head")
    first = "stages.0.blocks.0.mixer"
    if first in saved.layers:
        found["axis"] = saved.axis_options(first, -1)
        if config.ndim == 3:
            found["time_axis"] = saved.axis_options(first, 0)
    return saved.fill(lambda options: ConvNeXt(ConvNeXtConfig(**options)), found)


def _shape_of_network(saved: Saved, sizes: Sequence[int]) -> dict[str, Any]:
    depths = [saved.count(rf"stages\.{stage}\.blocks\.(\d+)\.norm\.weight$") for stage in range(4)]
    if not all(depths):
        raise CheckpointError(
            f"stages 0 to 3 have {depths} blocks: not a ConvNeXt of the public code "
            "(expected names such as stages.0.blocks.0.conv_dw…)"
        )
    widths = [saved.shape(f"stages.{stage}.blocks.0.norm.weight")[0] for stage in range(4)]
    found: dict[str, Any] = {
        "depths": depths,
        "widths": widths,
        "num_classes": saved.shape("head.fc.weight")[0],
        "layer_scale": 1e-6 if "stages.0.blocks.0.gamma" in saved else None,
        **_mixer_options(saved),
    }
    if len(sizes) != found["ndim"]:
        raise CheckpointError(
            f"the network has {found['ndim']} axes, but input_size is {tuple(sizes)}"
        )
    found["image_size"] = list(sizes[-2:])
    if found["ndim"] == 3:
        found["num_frames"] = sizes[0]
        found["temporal_strides"] = [_temporal_stride(saved, stage) for stage in (1, 2, 3)]
    if "stages.1.downsample.fc.weight" in saved:
        gated = saved.shape("stages.1.downsample.fc.weight")[0] == 2 * widths[1]
        found |= {"downsample": "s4nd", "downsample_gated": gated}
    return found


def _mixer_options(saved: Saved) -> dict[str, Any]:
    axes = saved.num_axes(FIRST)
    if axes:
        return {"mixer": "s4nd", "ndim": axes}
    kernel = saved.shape(f"{FIRST}.conv.weight")[2:]
    if f"{FIRST}.conv.time_weight" in saved:
        taps = saved.shape(f"{FIRST}.conv.time_weight")[0]
        return {"mixer": "separable", "ndim": 3, "temporal_kernel": taps, "kernel": kernel[-1]}
    found = {"mixer": "conv", "ndim": len(kernel), "kernel": kernel[-1]}
    return {**found, "temporal_kernel": kernel[0]} if len(kernel) == 3 else found


def _stem_options(saved: Saved, sizes: Sequence[int]) -> dict[str, Any]:
    if "stem.stem.0.weight" in saved and "stem.stem.1.weight" in saved:
        patch = saved.shape("stem.stem.0.weight")[2:]
        found: dict[str, Any] = {"stem": "patch", "patch": patch[-1]}
        if "stem.stem.0.time_weight" in saved:
            found["temporal_patch"] = saved.shape("stem.stem.0.time_weight")[0]
        elif len(patch) == 3:
            found["temporal_patch"] = patch[0]
        return found
    prefix, linear, _ = _s4nd_stem(saved)
    found = {"stem": "s4nd", "stem_channels": saved.shape(f"{linear}.weight")[1]}
    kernel = saved.stored_sizes(prefix)
    if kernel is not None:
        found["stem_kernel"] = kernel if len(set(kernel)) > 1 else kernel[0]
    grid = saved.stored_sizes(FIRST)
    if grid is not None:
        found["patch"] = max(1, round(sizes[-1] / grid[-1]))
        if len(sizes) == 3:
            found["temporal_patch"] = max(1, round(sizes[0] / grid[0]))
    return found


def _s4nd_stem(saved: Saved) -> tuple[str, str, str]:
    """Names of the S4ND, the linear layer and the norm of the stem."""
    for names in (
        ("stem.stem", "stem.post_stem.1", "stem.post_stem.3"),
        ("stem.stem.0", "stem.stem.2", "stem.stem.4"),
    ):
        if saved.num_axes(names[0]):
            return names
    raise CheckpointError(
        "the stem is neither of patches (stem.stem.0, stem.stem.1) nor a dense S4ND "
        "(stem.stem.kernel…, stem.post_stem…); other stems of the public code are not read"
    )


def _temporal_stride(saved: Saved, stage: int) -> int:
    conv = f"stages.{stage}.downsample.conv"
    if f"{conv}.time_weight" in saved:
        return saved.shape(f"{conv}.time_weight")[0]
    if f"{conv}.weight" in saved:
        return saved.shape(f"{conv}.weight")[2]
    before = saved.stored_sizes(f"stages.{stage}.downsample.s4conv")
    after = saved.stored_sizes(f"stages.{stage}.blocks.0.conv_dw")
    return max(1, round(before[0] / after[0])) if before and after else 1


def _move_convolution(saved: Saved, theirs: str, ours: str) -> None:
    saved.move(theirs, ours)
    if f"{theirs}.time_weight" in saved:
        saved.move_tensor(f"{theirs}.time_weight", f"{ours}.time_weight")


def _move_stem(saved: Saved, config: ConvNeXtConfig) -> None:
    if config.stem == "patch":
        _move_convolution(saved, "stem.stem.0", "stem.conv")
        saved.move("stem.stem.1", "stem.norm")
        return
    mixer, linear, norm = _s4nd_stem(saved)
    saved.move_s4nd(mixer, "stem.mixer", config.stem_sizes, config.stem_channels)
    saved.move_linear(linear, "stem.linear")
    saved.move(norm, "stem.norm")


def _move_downsample(saved: Saved, config: ConvNeXtConfig, stage: int) -> None:
    theirs, ours = f"stages.{stage}", f"stages.{stage}.downsample"
    saved.move(f"{theirs}.norm_layer", f"{ours}.norm")
    if config.downsample == "conv":
        _move_convolution(saved, f"{theirs}.downsample.conv", f"{ours}.conv")
        return
    saved.move_s4nd(f"{theirs}.downsample.s4conv", f"{ours}.mixer", config.grid(stage - 1))
    saved.move_linear(f"{theirs}.downsample.fc", f"{ours}.linear")


def _move_block(saved: Saved, config: ConvNeXtConfig, stage: int, block: int) -> None:
    name = f"stages.{stage}.blocks.{block}"
    if config.mixer == "s4nd":
        saved.move_s4nd(f"{name}.conv_dw", f"{name}.mixer", config.grid(stage))
    else:
        _move_convolution(saved, f"{name}.conv_dw.conv", f"{name}.mixer")
    saved.move(f"{name}.norm", f"{name}.norm")
    saved.move_linear(f"{name}.mlp.fc1", f"{name}.mlp.fc1")
    saved.move_linear(f"{name}.mlp.fc2", f"{name}.mlp.fc2")
    if config.layer_scale is not None:
        saved.move_tensor(f"{name}.gamma", f"{name}.scale")
