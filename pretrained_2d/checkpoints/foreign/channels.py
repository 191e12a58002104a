"""Input channels of a foreign checkpoint: other numbers than three, for volumes and spectra."""

from dataclasses import replace

from torch import Tensor, nn

from pretrained_2d.checkpoints.foreign.matching import Match


def first_layers(network: nn.Module) -> tuple[str, ...]:
    """Names of the weights that see the image, as timm names them; none for other networks."""
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
    """First layers of three channels made ones of another number, as timm does it.

    One channel gets the sum of the three; a grey image then gives what it gave as a colour image.
    """
    from timm.models import adapt_input_conv

    wanted, tensors, notes = network.state_dict(), dict(match.tensors), []
    for name in first_layers(network):
        tensor = tensors.get(name)
        if tensor is None or name not in wanted or not _differ_in_channels(tensor, wanted[name]):
            continue
        if tensor.shape[1] == 3:
            channels = wanted[name].shape[1]
            tensors[name] = adapt_input_conv(channels, tensor)
            notes.append(f"{name}: 3 input channels made {channels} by timm")
    return replace(match, tensors=tensors), notes


def _differ_in_channels(tensor: Tensor, wanted: Tensor) -> bool:
    return (
        tensor.ndim == wanted.ndim == 4
        and tensor.shape[1] != wanted.shape[1]
        and (tensor.shape[0], *tensor.shape[2:]) == (wanted.shape[0], *wanted.shape[2:])
    )
