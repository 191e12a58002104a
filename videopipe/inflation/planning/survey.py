"""Running a 2D network once to see which of its layers work on frames, and in what order.

Names and types are not enough: a convolution may be applied to position tables, never be called, or
be called on windows of a frame. So the network is run on one image and on two, and the inputs and
outputs of every layer are recorded.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

# Layers that mix the tokens of a frame without a spatial kernel.
_MIXER_CLASS = re.compile(r"attention|attn|spatialgatingunit|tokenmix", re.IGNORECASE)
_MIXER_NAME = re.compile(r"^(attn|token_mixer|mixer|modulation|(mlp|linear|rnn)_tokens)$")
# These have attention in their names, but gate channels or positions of a convolution.
_GATE_CLASS = re.compile(
    r"(channel|spatial|selectivekernel|split)attn|pool|downsample", re.IGNORECASE
)
# Applied to (batch, channels, tokens).
_TOKENS_LAST = re.compile(r"(^|\.)(mlp_tokens|linear_tokens)$")


@dataclass
class LayerTrace:
    """One layer in the trial run: its position, its shapes, and whether it works frame by frame."""

    name: str
    kind: str  # "convolution", "mixer", "block" (anything else)
    began: int = -1
    ended: int = -1
    input_shape: tuple[int, ...] = ()
    output_shape: tuple[int, ...] = ()
    channel_dim: int = 1
    by_frame: bool = False  # two frames give what each gives alone, the batch outermost
    takes_image: bool = False  # its input is the network's

    @property
    def channels(self) -> int:
        """Channels of its output."""
        return self.output_shape[self.channel_dim]


def is_convolution(module: nn.Module) -> bool:
    """A 2D convolution of any library: a weight, channel groups and a stride."""
    if isinstance(module, nn.Conv2d):
        return True
    has_weight = isinstance(getattr(module, "weight", None), Tensor)
    named = "conv" in type(module).__name__.lower()
    convolves = all(hasattr(module, name) for name in ("groups", "stride", "padding"))
    return has_weight and named and convolves and not isinstance(module, nn.modules.conv._ConvNd)


def is_token_mixer(name: str, module: nn.Module) -> bool:
    """Attention, gating over tokens, pooling or a perceptron across positions."""
    if is_convolution(module) or isinstance(module, nn.Identity):
        return False
    kind, own_name = type(module).__name__, name.rpartition(".")[2]
    by_class = _MIXER_CLASS.search(kind) and not _GATE_CLASS.search(kind)
    return bool(by_class or _MIXER_NAME.match(own_name))


@torch.no_grad()
def survey(network: nn.Module, image_size: int, channels: int = 3) -> dict[str, LayerTrace]:
    """Every called module by name, in a run on images of `image_size` pixels.

    Raises ValueError when the network does not classify such images.
    """
    images = trial_images(network, 2, image_size, channels)
    with evaluating(network):
        alone = _watch(network, images[:1])
        pair = _watch(network, images)
    for name, (seen, output) in pair.items():
        if name not in alone:
            continue
        single = alone[name][1]
        seen.by_frame = (
            output.ndim > 1
            and len(output) == 2 * len(single)
            and _close(output[: len(single)], single)
        )
    return {name: seen for name, (seen, _) in pair.items()}


def trial_images(network: nn.Module, count: int, image_size: int, channels: int) -> Tensor:
    """The same random images every time, for a trial run."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, channels, image_size, image_size, generator=generator)
    return images.to(parameter_like(network))


def parameter_like(network: nn.Module) -> Tensor:
    """A tensor with the device and number format of the network."""
    return next(network.parameters(), torch.empty(0))


def _watch(network: nn.Module, images: Tensor) -> dict[str, tuple[LayerTrace, Tensor]]:
    """Run the network and record every module's call, with a few numbers of its output."""
    watched: dict[str, tuple[LayerTrace, Tensor]] = {}
    open_calls: dict[str, LayerTrace] = {}
    ticks = iter(range(1 << 60))
    channel_dims: list[int] = [1]

    def before(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        kind = "mixer" if is_token_mixer(name, module) else "block"
        seen = LayerTrace(
            name, "convolution" if is_convolution(module) else kind, began=next(ticks)
        )
        first = _first_tensor((*args, *kwargs.values()))
        if first is not None:
            seen.input_shape = tuple(first.shape)
            seen.takes_image = first.shape == images.shape and torch.equal(first, images)
        open_calls[name] = seen

    def after(name: str, module: nn.Module, output: Any) -> None:
        seen = open_calls.pop(name, None)
        tensor = _first_tensor(output if isinstance(output, tuple) else (output,))
        if type(module).__name__.endswith("2d"):
            channel_dims.append(1)
        elif isinstance(module, nn.Linear):
            channel_dims.append(-1)
        if seen is None or tensor is None or name in watched:
            return  # only the first of several calls is recorded
        seen.ended = next(ticks)
        seen.output_shape = tuple(tensor.shape)
        seen.channel_dim = _channel_dim(seen, channel_dims[-1])
        watched[name] = (seen, _sample(tensor))

    with ExitStack() as hooks:
        for name, module in network.named_modules():
            hooks.enter_context(
                module.register_forward_pre_hook(
                    lambda m, args, kwargs, name=name: before(name, m, args, kwargs),
                    with_kwargs=True,
                )
            )
            hooks.enter_context(
                module.register_forward_hook(lambda m, _, out, name=name: after(name, m, out))
            )
        network(images)
    return watched


def _channel_dim(seen: LayerTrace, of_last_layer: int) -> int:
    """The dimension of the channels: 1 in feature maps, last in tokens."""
    if seen.kind == "convolution" or _TOKENS_LAST.search(seen.name):
        return 1
    return -1 if len(seen.output_shape) == 3 else of_last_layer


def _sample(output: Tensor) -> Tensor:
    """A few numbers of each entry of the batch."""
    if output.ndim < 2:
        return output
    rows = output.flatten(1).float()
    return rows[:, :: max(1, rows.shape[1] // 8)].clone()


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-2, atol=1e-3 * float(other.abs().max()))


def _first_tensor(values: tuple[Any, ...]) -> Tensor | None:
    return next((value for value in values if isinstance(value, Tensor)), None)


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the context; then every module has its earlier mode again."""
    modes = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
