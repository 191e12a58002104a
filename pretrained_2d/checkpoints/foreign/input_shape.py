"""Fit a foreign checkpoint to other numbers of input channels and other image sizes."""

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

from torch import Tensor, nn

from pretrained_2d.checkpoints.foreign.names.matching import Match
from pretrained_2d.errors import CheckpointError

MOST_TOKENS = 8  # class, distillation and register tokens before the grid of a position table


def first_layers(network: nn.Module) -> tuple[str, ...]:
    """Names of the weights of the first layers, by timm; none for other networks."""
    inner = getattr(network, "network", network)
    names = getattr(inner, "pretrained_cfg", {}).get("first_conv") or ()
    names = (names,) if isinstance(names, str) else names
    return tuple(f"network.{name}.weight" for name in names)


def channels_of(match: Match, network: nn.Module) -> int | None:
    """Channels of the images that the file is for, if the network was built for other ones."""
    wanted = network.state_dict()
    for name in first_layers(network):
        tensor = match.tensors.get(name)
        if tensor is not None and name in wanted and _differ_in_channels(tensor, wanted[name]):
            return int(tensor.shape[1])
    return None


def with_channels(match: Match, network: nn.Module) -> tuple[Match, list[str]]:
    """Convert first layers of three channels to another number, as timm does it.

    One channel gets the sum of the three; a grey image then gives what it gave as a colour image.
    """
    from timm.models import adapt_input_conv

    wanted, tensors, notes = network.state_dict(), dict(match.tensors), []
    for name in first_layers(network):
        tensor = tensors.get(name)
        if tensor is None or name not in wanted or not _differ_in_channels(tensor, wanted[name]):
            continue
        channels = wanted[name].shape[1]
        if tensor.shape[1] != 3:
            raise CheckpointError(
                f"the first layer of the file takes {tensor.shape[1]} channels, but {channels} are "
                "asked for; leave the option in_chans out (only colour weights are converted)"
            )
        tensors[name] = adapt_input_conv(channels, tensor)
        notes.append(f"{name}: 3 input channels made {channels} by timm")
    return replace(match, tensors=tensors), notes


def _differ_in_channels(tensor: Tensor, wanted: Tensor) -> bool:
    return (
        tensor.ndim == wanted.ndim == 4
        and tensor.shape[1] != wanted.shape[1]
        and (tensor.shape[0], *tensor.shape[2:]) == (wanted.shape[0], *wanted.shape[2:])
    )


def with_positions(match: Match, network: nn.Module) -> tuple[Match, list[str]]:
    """Position tables resampled to the network's grid (bicubic), where timm has not done it."""
    wanted, tensors, notes = network.state_dict(), dict(match.tensors), []
    for name, table in match.tensors.items():
        if not name.rpartition(".")[2].startswith("pos") or table.shape == wanted[name].shape:
            continue
        resampled = _resampled(table, wanted[name].shape)
        if resampled is not None:
            tensors[name] = resampled
            notes.append(f"{name}: {tuple(table.shape)} resampled to {tuple(resampled.shape)}")
    return replace(match, tensors=tensors), notes


def _resampled(table: Tensor, shape: Sequence[int]) -> Tensor | None:
    """A table of positions for another grid; None if it is not of a square grid of positions.

    (…, positions, channels) with tokens before the grid, (1, channels, height, width), or
    (1, height, width, channels).
    """
    from timm.layers.pos_embed import resample_abs_pos_embed, resample_abs_pos_embed_nhwc

    if table.ndim != len(shape) or table.ndim not in (2, 3, 4):
        return None
    if table.ndim == 4 and table.shape[1] == shape[1]:
        last = table.permute(0, 2, 3, 1)
        return resample_abs_pos_embed_nhwc(last, list(shape[2:])).permute(0, 3, 1, 2)
    if table.shape[-1] != shape[-1]:
        return None
    if table.ndim == 4:
        return resample_abs_pos_embed_nhwc(table, list(shape[1:3]))
    for tokens in range(MOST_TOKENS + 1):
        old, side = isqrt(max(table.shape[-2] - tokens, 0)), isqrt(max(shape[-2] - tokens, 0))
        if (old**2 + tokens, side**2 + tokens) == (table.shape[-2], shape[-2]):
            rows = table.reshape(1, *table.shape[-2:])
            grid = resample_abs_pos_embed(rows, [side, side], num_prefix_tokens=tokens)
            return grid.reshape(tuple(shape))
    return None
