"""Load any checkpoint folder: networks of images or clips, rebuilt in 3D, folded or probed."""

import os
import re
from pathlib import Path

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import CARD, WEIGHTS, build_from_card, load_checkpoint
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.backbones import build
from videopipe.errors import DataError, first_line

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def find_model(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """The checkpoint folder of this name: a folder, or `owner/name` on the Hugging Face hub.

    A folder that exists is preferred. From the hub only the two files of a checkpoint are
    downloaded, into its cache; they are read as data, never executed. `revision`: a branch, tag or
    commit of the hub. Raises CheckpointError for a name that is neither.
    """
    if Path(name).exists():
        if revision is not None:
            raise CheckpointError(f"{name} is a folder; revision {revision} is for the hub only")
        return Path(name)
    if not HUB_ID.fullmatch(os.fspath(name)):
        raise CheckpointError(
            f"{name} does not exist; name a checkpoint folder, or owner/name of the hub"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        files = [CARD, WEIGHTS]
        found = snapshot_download(os.fspath(name), revision=revision, allow_patterns=files)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise CheckpointError(
            f"{name} is not a folder and could not be read from the Hugging Face hub "
            f"({first_line(error)}); check the name, the connection, and for private models "
            "`hf auth login`"
        ) from error
    return Path(found)


def load_model(folder: Path | str) -> tuple[nn.Module, ModelCard]:
    """The model, in eval mode on the CPU, and its card.

    Raises CheckpointError that names the file and the remedy.
    """
    return load_checkpoint(Path(folder), build=build_any)


def build_any(card: ModelCard) -> nn.Module:
    """The untrained network of any card, also of a network inflated by folding or probed."""
    if card.probe is not None:
        from videopipe.probing.network import build_probed

        return build_probed(card)
    if card.inflation is None:
        return build_from_card(card)
    from videopipe.inflation.folded import FoldedNetwork
    from videopipe.inflation.planning.layer_plan import InflationPlan

    network = build(card.architecture, **card.options)
    return FoldedNetwork(network, InflationPlan.from_json(card.inflation))


def check_predicts(card: ModelCard) -> None:
    """Raise DataError for an encoder, which has no classes to predict."""
    if card.is_encoder:
        raise DataError(
            "the model is an encoder without a classifying layer: `videopipe embed` writes its "
            "features; fine-tune or probe it to predict classes"
        )


def check_takes_videos(card: ModelCard) -> None:
    """Raise DataError for a network of other than three channels; videos are decoded as RGB."""
    channels = len(card.preprocessing.mean)
    if channels != 3:
        raise DataError(
            f"the model takes images of {channels} channels, but videos are decoded as RGB: "
            "use it on volumes from Python, or adopt weights of three channels"
        )


def num_outputs(model: nn.Module) -> int:
    """The number of classes of the head; 0 for an encoder."""
    head = model.head
    assert isinstance(head, nn.Module)
    return max((len(parameter) for parameter in head.parameters()), default=0)
