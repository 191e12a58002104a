"""Networks as the public S4ND code names and computes them, written down from its documentation.

Each class of names is a dictionary of random tensors; each forward is plain functional code on that
dictionary, independent of our networks. The S4ND layers inside are `s4nd.from_reference`, which is
tested against dumps of the reference layer.
"""

import torch
from torch import Tensor
from torch.nn import functional

import s4nd

State = dict[str, Tensor]
PAIRS = 4  # half of the state


def add_linear(state: State, name: str, out: int, *inside: int) -> None:
    state[f"{name}.weight"] = torch.randn(out, *inside) / max(1, inside[0]) ** 0.5
    state[f"{name}.bias"] = 0.1 * torch.randn(out)


def add_norm(state: State, name: str, width: int) -> None:
    state[f"{name}.weight"] = 1 + 0.1 * torch.randn(width)
    state[f"{name}.bias"] = 0.1 * torch.randn(width)


def add_s4nd(state: State, name: str, width: int, sizes, *, outputs=1, channels=1, time_copies=1):
    """`outputs`: dense outputs of a stem; `channels`: kernels for each channel."""
    state[f"{name}.D"] = torch.randn(channels, width)
    for axis, size in enumerate(sizes):
        copies = time_copies if axis == 0 else 1
        kernel = f"{name}.kernel.{axis}"
        state[f"{kernel}.inv_dt"] = torch.rand(width, 1) * 2 - 2.3
        state[f"{kernel}.C"] = 0.5 * torch.randn(2 * outputs * channels, width, PAIRS, 2)
        state[f"{kernel}.B"] = torch.randn(1, copies, PAIRS, 2)
        state[f"{kernel}.A_real"] = torch.full((copies, PAIRS), 0.5).log()
        state[f"{kernel}.A_imag"] = torch.pi * torch.arange(PAIRS).repeat(copies, 1)
        state[f"{kernel}.P"] = 0.3 * torch.randn(1, copies, PAIRS, 2)
        state[f"{kernel}.l_kernel"] = torch.tensor(size)


def s4nd_layer(state: State, name: str, signal: Tensor, sizes, rate=1.0, out_channels=None):
    part = {
        key.removeprefix(f"{name}."): value
        for key, value in state.items()
        if key.startswith((f"{name}.D", f"{name}.kernel."))
    }
    used = {
        key: value
        for key, value in part.items()
        if key == "D" or int(key.split(".")[1]) < len(sizes)
    }
    layer = s4nd.from_reference(used, size=sizes, out_channels=out_channels)
    return layer(signal, rate)


def linear(state: State, name: str, x: Tensor) -> Tensor:
    return functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])


def norm(state: State, name: str, x: Tensor, eps: float = 1e-6) -> Tensor:
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def norm_first(state: State, name: str, x: Tensor) -> Tensor:
    return norm(state, name, x.movedim(1, -1)).movedim(-1, 1)


def linear_first(state: State, name: str, x: Tensor) -> Tensor:
    return linear(state, name, x.movedim(1, -1)).movedim(-1, 1)


def convolution(state: State, name: str, x: Tensor, **options) -> Tensor:
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    if f"{name}.time_weight" in state:
        weight = weight[:, :, None] * state[f"{name}.time_weight"][:, None, None]
    convolve = functional.conv2d if weight.ndim == 4 else functional.conv3d
    return convolve(x, weight, bias, **options)


def pool(x: Tensor, stride) -> Tensor:
    average = functional.avg_pool2d if len(stride) == 2 else functional.avg_pool3d
    return average(x, tuple(stride))


# ConvNeXt and ConvNeXt3D -------------------------------------------------------------------------


def convnext(kind: str, size, widths=(4, 6, 8, 10), depths=(1, 2, 1, 1), classes=5) -> State:
    """kind: a mixer (conv, factored, s4nd), with "+stem" or "+downsample" for S4ND there too."""
    state: State = {}
    ndim = len(size)
    patch = (2, 4, 4)[3 - ndim :]
    grid = [n // p for n, p in zip(size, patch, strict=True)]
    if "+stem" in kind:
        add_s4nd(state, "stem.stem", 3, (8,) * ndim, outputs=4)
        add_linear(state, "stem.post_stem.1", 2 * widths[0], 4)
        add_norm(state, "stem.post_stem.3", widths[0])
    else:
        _add_convolution(state, "stem.stem.0", widths[0], 3, patch, kind)
        add_norm(state, "stem.stem.1", widths[0])
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        name = f"stages.{stage}"
        if stage:
            before, step = widths[stage - 1], (1, 2, 2)[3 - ndim :]
            add_norm(state, f"{name}.norm_layer", before)
            if "+downsample" in kind:
                add_s4nd(state, f"{name}.downsample.s4conv", before, grid)
                add_linear(state, f"{name}.downsample.fc", 2 * width, before)
            else:
                _add_convolution(state, f"{name}.downsample.conv", width, before, step, kind)
            grid = [n // s for n, s in zip(grid, step, strict=True)]
        for block in range(depth):
            _add_block(state, f"{name}.blocks.{block}", width, grid, kind)
    add_norm(state, "head.norm", widths[-1])
    add_linear(state, "head.fc", classes, widths[-1])
    return state


def _add_convolution(state: State, name, out, inside, kernel, kind) -> None:
    factored = kind.startswith("factored")
    add_linear(state, name, out, inside, *(kernel[1:] if factored else kernel))
    if factored:
        state[f"{name}.time_weight"] = torch.rand(kernel[0]) + 0.5


def _add_block(state: State, name: str, width: int, grid, kind: str) -> None:
    if kind.startswith("s4nd"):
        copies = width if len(grid) == 3 else 1
        add_s4nd(state, f"{name}.conv_dw", width, grid, time_copies=copies)
    else:
        kernel = (3, 7, 7)[3 - len(grid) :]
        _add_convolution(state, f"{name}.conv_dw.conv", width, 1, kernel, kind)
        state[f"{name}.conv_dw.conv.weight"] *= 0.2
    add_norm(state, f"{name}.norm", width)
    add_linear(state, f"{name}.mlp.fc1", 4 * width, width)
    add_linear(state, f"{name}.mlp.fc2", width, 4 * width)
    state[f"{name}.gamma"] = torch.rand(width)


def run_convnext(state: State, x: Tensor, size, rate=1.0, depths=(1, 2, 1, 1)) -> Tensor:
    ndim = len(size)
    patch = (2, 4, 4)[3 - ndim :]
    grid = [n // p for n, p in zip(size, patch, strict=True)]
    if "stem.post_stem.1.weight" in state:
        x = pool(s4nd_layer(state, "stem.stem", x, (8,) * ndim, rate, 4), patch)
        x = functional.glu(linear_first(state, "stem.post_stem.1", x), dim=1)
        x = norm_first(state, "stem.post_stem.3", x)
    else:
        x = norm_first(state, "stem.stem.1", convolution(state, "stem.stem.0", x, stride=patch))
    for stage, depth in enumerate(depths):
        name, step = f"stages.{stage}", (1, 2, 2)[3 - ndim :]
        if stage:
            x = norm_first(state, f"{name}.norm_layer", x)
            if f"{name}.downsample.fc.weight" in state:
                x = pool(s4nd_layer(state, f"{name}.downsample.s4conv", x, grid, rate), step)
                x = functional.glu(linear_first(state, f"{name}.downsample.fc", x), dim=1)
            else:
                x = convolution(state, f"{name}.downsample.conv", x, stride=step)
            grid = [n // s for n, s in zip(grid, step, strict=True)]
        for block in range(depth):
            x = _run_block(state, f"{name}.blocks.{block}", x, grid, rate)
    x = norm(state, "head.norm", x.flatten(2).mean(2))
    return linear(state, "head.fc", x)


def _run_block(state: State, name: str, x: Tensor, grid, rate) -> Tensor:
    if f"{name}.conv_dw.D" in state:
        y = s4nd_layer(state, f"{name}.conv_dw", x, grid, rate)
    else:
        padding = (1, 3, 3)[3 - len(grid) :]
        y = convolution(state, f"{name}.conv_dw.conv", x, padding=padding, groups=x.shape[1])
    y = norm(state, f"{name}.norm", y.movedim(1, -1))
    y = linear(state, f"{name}.mlp.fc2", functional.gelu(linear(state, f"{name}.mlp.fc1", y)))
    return x + (state[f"{name}.gamma"] * y).movedim(-1, 1)


# The isotropic network ---------------------------------------------------------------------------


def isotropic(kind: str, size, width=6, depth=2, classes=5) -> State:
    state: State = {}
    add_linear(state, "encoder.0", width, 3)
    for layer in range(depth):
        name = f"model.layers.{layer}"
        add_norm(state, f"{name}.norm.norm", width)
        if kind == "s4nd":
            add_s4nd(state, f"{name}.layer", width, size)
            add_linear(state, f"{name}.layer.output_linear.0", 2 * width, width)
        else:
            inside = width if kind == "dense" else 1
            add_linear(state, f"{name}.layer.conv2d", width, inside, 3, 3)
            if kind == "conv":
                add_linear(state, f"{name}.layer.linear", width, width, 1, 1)
    add_norm(state, "model.norm.norm", width)
    add_linear(state, "decoder.0.output_transform", classes, width)
    return state


def run_isotropic(state: State, x: Tensor, size, kind: str, rate=1.0, depth=2) -> Tensor:
    x = linear(state, "encoder.0", x.movedim(1, -1))
    for layer in range(depth):
        name = f"model.layers.{layer}"
        y = norm(state, f"{name}.norm.norm", x, 1e-5)
        if kind == "s4nd":
            y = s4nd_layer(state, f"{name}.layer", y.movedim(-1, 1), size, rate).movedim(1, -1)
            y = functional.glu(linear(state, f"{name}.layer.output_linear.0", functional.gelu(y)))
        else:
            groups = 1 if kind == "dense" else y.shape[-1]
            y = y.transpose(-1, -3)  # channels, width, height: so the public code
            y = convolution(state, f"{name}.layer.conv2d", y, padding=1, groups=groups)
            y = functional.gelu(y)
            if kind == "conv":
                y = convolution(state, f"{name}.layer.linear", y)
            y = y.transpose(-1, -3)
        x = x + y
    x = norm(state, "model.norm.norm", x, 1e-5).flatten(1, -2).mean(1)
    return linear(state, "decoder.0.output_transform", x)


# The vision transformer --------------------------------------------------------------------------


def vit(tokens: int, width=6, depth=2, patch=4, classes=5, *, unused_kernel=False) -> State:
    state: State = {}
    add_linear(state, "patch_embed.proj", width, 3, patch, patch)
    for block in range(depth):
        mixing, feeding = f"blocks.{2 * block}", f"blocks.{2 * block + 1}"
        add_norm(state, f"{mixing}.norm.norm", width)
        sizes = (tokens, tokens) if unused_kernel else (tokens,)
        add_s4nd(state, f"{mixing}.layer", width, sizes, channels=2)
        add_linear(state, f"{mixing}.layer.output_linear.0", 2 * width, 2 * width)
        add_norm(state, f"{feeding}.norm.norm", width)
        add_linear(state, f"{feeding}.layer.ff.0.0", 4 * width, width)
        add_linear(state, f"{feeding}.layer.ff.2", width, 4 * width)
    add_norm(state, "norm.norm", width)
    add_linear(state, "head", classes, width)
    return state


def run_vit(state: State, x: Tensor, tokens: int, depth=2, patch=4) -> Tensor:
    x = convolution(state, "patch_embed.proj", x, stride=patch).flatten(2).transpose(1, 2)
    for block in range(depth):
        mixing, feeding = f"blocks.{2 * block}", f"blocks.{2 * block + 1}"
        y = norm(state, f"{mixing}.norm.norm", x, 1e-5).transpose(1, 2)
        y = functional.gelu(s4nd_layer(state, f"{mixing}.layer", y, (tokens,))).transpose(1, 2)
        x = x + functional.glu(linear(state, f"{mixing}.layer.output_linear.0", y))
        y = norm(state, f"{feeding}.norm.norm", x, 1e-5)
        y = functional.gelu(linear(state, f"{feeding}.layer.ff.0.0", y))
        x = x + linear(state, f"{feeding}.layer.ff.2", y)
    return linear(state, "head", norm(state, "norm.norm", x, 1e-5).mean(1))
