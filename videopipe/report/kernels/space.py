"""2D kernels at several resolutions, with and without bandlimit (paper, Figure 4)."""

from collections.abc import Sequence

import torch
from torch import nn

from s4nd import S4ND
from s4nd.axis import AxisStateSpace
from videopipe.report.pictures.canvas import Canvas, Picture

RATES = (2.0, 1.0, 0.5)  # base samples per sample: coarse, as trained, fine
NUM_CHANNELS = 3
RAW_PIXELS = 64  # larger pictures are resized to the size at which they are shown
DEFAULT_CUT = 0.2  # shown for layers that have no bandlimit of their own


def plane_kernels(prefix: str, model: nn.Module) -> list[Picture]:
    """The first, a middle and the last layer with height and width."""
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, S4ND) and len(module.axes) >= 2 and module.out_channels is None
    ]
    # Skip the small maps at the end of a network, whose kernels have one or two samples.
    layers = [one for one in layers if min(a.size for a in one[1].axes[-2:]) >= 4] or layers
    chosen = dict([layers[0], layers[len(layers) // 2], layers[-1]]) if layers else {}
    return [_picture(prefix, name, layer) for name, layer in chosen.items()]


def _picture(prefix: str, name: str, layer: S4ND) -> Picture:
    own = layer.bandlimit
    cut = own[-1] if own[-1] is not None else DEFAULT_CUT
    title = f"Kernels of {name} in the plane"
    whose = (
        "this layer's own"
        if own[-1] is not None
        else "the layer has no bandlimit of its own, so this one is drawn to show its effect"
    )
    alt = (
        f"{title}: {NUM_CHANNELS} channels (columns in threes) on a grid half, as and twice as fine"
        f" as in training; upper row without bandlimit, lower row with α = {cut:g} ({whose}). "
        "Purple is positive, orange negative, each picture scaled to its largest weight. A kernel "
        "that looks alike on all three grids transfers to other resolutions."
    )
    shape = (2, NUM_CHANNELS * len(RATES))
    with Canvas(
        f"{prefix}-plane-{name.replace('.', '-')}", title, alt, size=(9.6, 2.8), grid=shape
    ) as canvas:
        axes = iter(canvas.all_axes)
        try:
            for bandlimit, heading in ((None, "α = ∞"), (cut, f"α = {cut:g}")):
                layer.bandlimit = (None,) * (len(own) - 2) + (bandlimit, bandlimit)
                pictures = [_plane(layer, rate) for rate in RATES]
                for channel in range(NUM_CHANNELS):
                    for rate, picture in zip(RATES, pictures, strict=True):
                        one = next(axes)
                        limit = float(picture[channel].abs().max()) or 1.0
                        one.imshow(
                            picture[channel].numpy(), cmap="PuOr", vmin=-limit, vmax=limit,
                            interpolation="none" if picture.shape[-1] <= RAW_PIXELS else "auto",
                        )  # fmt: skip
                        one.set_title(f"{heading}, {_grid(layer, rate)}", fontsize=6)
                        one.set_xticks([])
                        one.set_yticks([])
                        one.grid(visible=False)
        finally:
            layer.bandlimit = own
        canvas.figure.suptitle(title, fontsize=9)
    return canvas.picture


@torch.no_grad()
def _plane(layer: S4ND, rate: float) -> torch.Tensor:
    """The product of the height and width kernels: (channels, height, width)."""
    spaces = [space for space in layer.spaces if isinstance(space, AxisStateSpace)]
    height, width = (
        space.taps(max(1, round(space.config.size / rate)), rate)[0, :NUM_CHANNELS, 1:]
        for space in spaces[-2:]
    )
    return height[:, :, None] * width[:, None, :]


def _grid(layer: S4ND, rate: float) -> str:
    sizes: Sequence[int] = [max(1, round(axis.size / rate)) for axis in layer.axes[-2:]]
    return "×".join(str(size) for size in sizes)
