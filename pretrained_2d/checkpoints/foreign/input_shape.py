"""Fit a foreign checkpoint to other numbers of input channels and other image sizes."""

from dataclasses import replace

from torch import Tensor, nn

from pretrained_2d.checkpoints.foreign.names.matching import Match
from pretrained_2d.errors import CheckpointError


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


# Position tables that timm does not convert, with the parameter of a token before the grid. In the
# attention pool of CLIP's ResNets the token is the mean over the grid.
POSITIONS = {
    "positions": "class_token",
    "network.encoder.pos_embedding": "network.class_token",
    "network.head.pos_embed": "network.head.pos_embed",
}


def with_positions(match: Match, network: nn.Module) -> tuple[Match, list[str]]:
    """Position tables resampled to the network's grid (bicubic, as timm does it)."""
    from timm.layers.pos_embed import resample_abs_pos_embed

    wanted, tensors, notes = network.state_dict(), dict(match.tensors), []
    for name, token in POSITIONS.items():
        table = tensors.get(name)
        if table is None or table.shape == wanted[name].shape:
            continue
        before = int(token in wanted)
        side = round((wanted[name].shape[-2] - before) ** 0.5)
        if round((table.shape[-2] - before) ** 0.5) ** 2 + before == table.shape[-2]:
            rows = table.reshape(1, *table.shape[-2:])
            resampled = resample_abs_pos_embed(rows, [side, side], num_prefix_tokens=before)
            tensors[name] = resampled.reshape(*table.shape[:-2], *resampled.shape[1:])
            notes.append(f"{name}: {tuple(table.shape)} resampled to {side} × {side} positions")
    return replace(match, tensors=tensors), notes
