"""Checkpoint folders: `model.safetensors` and a `config.json` that alone rebuilds the model."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from pretrained_2d import atomic
from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.fitting import check_fit, load_tensors
from pretrained_2d.errors import CheckpointError
from pretrained_2d.networks.backbones import build
from pretrained_2d.networks.libraries.library_options import check_library_options

FORMAT, VERSION = "videopipe-checkpoint", 1
CARD, WEIGHTS = "config.json", "model.safetensors"


def save_checkpoint(folder: Path, model: nn.Module, card: ModelCard) -> None:
    """Write both files atomically; other files in the folder stay.

    The card holds the digest of the weights, so that a crash between the two renames is detected.
    """
    check_library_options(card.architecture, card.options)
    state = {
        name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    weights = save(_untied(state), metadata={"format": "pt"})
    described = asdict(card)
    if not card.multi_label:
        del described["multi_label"]  # earlier versions do not know the field
    content = {
        "format": FORMAT,
        "version": VERSION,
        **described,
        "weights": {"file": WEIGHTS, "sha256": hashlib.sha256(weights).hexdigest()},
    }
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    if folder.is_file():
        raise CheckpointError(f"{folder} is a file; name a folder to write the checkpoint to")
    if folder.exists() and any(folder.iterdir()):
        atomic.write_together(folder, {WEIGHTS: weights, CARD: text.encode()})
        return
    with atomic.new_folder(folder) as beside:
        (beside / WEIGHTS).write_bytes(weights)
        (beside / CARD).write_text(text, encoding="utf-8")


def read_card(folder: Path) -> ModelCard:
    """The card of a checkpoint folder, without its weights.

    Raises CheckpointError that names the file and the remedy.
    """
    content = _read_json(Path(folder))
    known = {field.name for field in fields(ModelCard)}
    path = Path(folder) / CARD
    missing = {"architecture"} - set(content)
    if missing:
        raise CheckpointError(f"{path}: 'architecture' is missing; write the checkpoint again")
    unknown = set(content) - known - {"format", "version", "weights"}
    if unknown:
        raise CheckpointError(f"{path}: unknown entries {sorted(unknown)}; is it hand-edited?")
    values = {name: value for name, value in content.items() if name in known}
    if not isinstance(values["architecture"], str) or not isinstance(
        values.get("options", {}), dict
    ):
        raise CheckpointError(f"{path}: 'architecture' must be a name and 'options' an object")
    try:
        card = _card(values)
        check_library_options(card.architecture, card.options)
        return card
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}; write the checkpoint again") from error


def build_from_card(card: ModelCard) -> nn.Module:
    """The untrained network that the card describes."""
    if card.inflation is not None or card.probe is not None:
        raise CheckpointError(
            f"{card.architecture} was inflated by folding, or probed: load it with "
            "videopipe.models.load_model"
        )
    return build(card.architecture, **{"ndim": card.ndim, **card.options})


def load_checkpoint(
    folder: Path, *, build: Callable[[ModelCard], nn.Module] = build_from_card
) -> tuple[nn.Module, ModelCard]:
    """The model, in eval mode on the CPU, and its card; every weight must fit."""
    folder = Path(folder)
    card = read_card(folder)
    state = read_weights(folder)
    model = build(card)
    check_fit(state, model.state_dict(), folder / WEIGHTS, card.architecture)
    load_tensors(model, state)
    _check_labels(folder, model, card)
    return model.eval(), card


def _check_labels(folder: Path, model: nn.Module, card: ModelCard) -> None:
    outputs = getattr(getattr(model, "head", None), "weight", None)
    if card.labels is not None and outputs is not None and len(outputs) != len(card.labels):
        raise CheckpointError(
            f"{folder / CARD} names {len(card.labels)} labels, but the network distinguishes "
            f"{len(outputs)} classes; correct 'labels'"
        )


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint folder, checked against the digest in its card."""
    path = Path(folder) / WEIGHTS
    if not path.is_file():
        raise CheckpointError(f"{path} is missing; copy the whole folder, or write it again")
    expected = _read_json(Path(folder)).get("weights", {}).get("sha256")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if expected != digest:
        raise CheckpointError(
            f"{path} is not the file that {CARD} was written for (truncated, damaged or replaced); "
            "copy both files again, or adopt the weights with `videopipe adopt`"
        )
    try:
        return load_file(path)
    except SafetensorError as error:
        raise CheckpointError(f"{path} is not a safetensors file ({error})") from error


def _read_json(folder: Path) -> dict[str, Any]:
    path = folder / CARD
    if not folder.is_dir():
        what = "is a file, not a checkpoint folder; adopt it with `videopipe adopt`"
        missing = f"does not exist; name a checkpoint folder, with {CARD} and {WEIGHTS}"
        raise CheckpointError(f"{folder} {what if folder.exists() else missing}")
    if not path.is_file():
        raise CheckpointError(
            f"{path} is missing, so {folder} is not a checkpoint folder; "
            "name the folder that holds config.json and model.safetensors"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(
            f"{path} is not JSON ({error}); write the checkpoint again"
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(
            f'{path} belongs to another program (no "format": "{FORMAT}"); '
            "convert the weights with `videopipe adopt`"
        )
    if content.get("version") != VERSION:
        raise CheckpointError(
            f"{path} has version {content.get('version')!r}, this program reads {VERSION}; "
            "update videopipe, or write the checkpoint again"
        )
    return content


def _card(values: dict[str, Any]) -> ModelCard:
    """Lists of JSON -> the tuples of the dataclasses."""
    preprocessing = dict(values.pop("preprocessing", {}))
    for name in ("mean", "std"):
        if name in preprocessing:
            preprocessing[name] = tuple(preprocessing[name])
    if values.get("labels") is not None:
        values["labels"] = tuple(values["labels"])
    return ModelCard(**values, preprocessing=Preprocessing(**preprocessing))


def _untied(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share memory are stored each on its own, as the format asks."""
    seen: set[int] = set()
    result = {}
    for name, tensor in state.items():
        shared = tensor.untyped_storage().data_ptr() in seen
        seen.add(tensor.untyped_storage().data_ptr())
        result[name] = tensor.clone() if shared else tensor
    return result
