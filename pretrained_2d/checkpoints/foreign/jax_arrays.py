"""Archives of NumPy arrays that JAX programs write (`.npz`), read by timm's own rules.

timm fills a network from them: ViTs of Google, SigLIP and Big Vision, and BiT ResNets. The tensors
of that network then go the way of all others, so that what is missing is an error as elsewhere.
"""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pretrained_2d.checkpoints.foreign.tensor_files.files import TensorFile
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.backbones import build

_PREFIXES = (
    "opt/target/",
    "params/img/",
    "params/",
    "resnet/",
    "",
)  # the first that the names begin with
_RESIZED = re.compile(
    r"pos_embed|embedding/kernel|patch_embed\.proj\.weight|conv_root|root_block|stem\.conv"
)
_HEAD = re.compile(r"^(head|pre_logits)\b")
_HEAD_BIAS = re.compile(r"^head/(conv2d/)?bias$")


@dataclass(frozen=True)
class _Archive:
    """Number of values of each array of the image network, and of its classes."""

    values: Mapping[str, int]
    classes: int


def is_jax_archive(path: Path) -> bool:
    """Whether the file is a zip of `.npy` arrays."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith(".npy") for name in archive.namelist())


def read_jax_archive(path: Path, architecture: str, options: Mapping[str, Any]) -> TensorFile:
    """The arrays as tensors under timm's names.

    Raises CheckpointError for networks that timm does not read in this way, and when the network
    and the file do not have the same layers.
    """
    archive = _contents(path)
    built = build(architecture, **{**options, "num_classes": archive.classes})
    network: Any = getattr(built, "network", built)
    if not architecture.startswith("timm/") or not hasattr(network, "load_pretrained"):
        raise CheckpointError(
            f"{path} is an archive of NumPy arrays, as JAX programs write; timm reads them for "
            f"ViTs and BiT ResNets (timm/vit_…, timm/resnetv2_…), not for {architecture}"
        )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(torch.nan)
        try:
            network.load_pretrained(str(path))
        except (KeyError, RuntimeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"{path} does not fit {architecture}: {error}; name the network that the file is of"
            ) from error
    state: dict[str, Tensor] = network.state_dict()
    tensors = {name: tensor for name, tensor in state.items() if not tensor.isnan().all()}
    used = sum(_counted({name: tensor.numel() for name, tensor in tensors.items()}))
    there = sum(_counted(archive.values))
    if used != there:
        raise CheckpointError(
            f"{path} has {there} values in the layers after its first, {architecture} has {used}; "
            "name the network that the file is of"
        )
    return TensorFile(path, tensors, "arrays of JAX, converted by timm")


def _contents(path: Path) -> _Archive:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            sizes = {name: int(np.prod(arrays[name].shape)) for name in arrays.files}
    except (ValueError, OSError, EOFError) as error:
        raise CheckpointError(f"{path} is damaged or holds Python objects: {error}") from error
    prefix = next(each for each in _PREFIXES if any(name.startswith(each) for name in sizes))
    values = {
        name.removeprefix(prefix): size for name, size in sizes.items() if name.startswith(prefix)
    }
    bias = next((size for name, size in values.items() if _HEAD_BIAS.match(name)), 0)
    return _Archive(values, bias)


def _counted(values: Mapping[str, int]) -> list[int]:
    """Of the layers whose size is the same for every image size and number of classes."""
    return [
        size
        for name, size in values.items()
        if not _RESIZED.search(name) and not _HEAD.search(name.replace("/", "."))
    ]
