"""Use a checkpoint in a pipeline: a file of another program, or a checkpoint folder."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from pretrained_2d.setting import setting, settings_of
from videopipe.pipeline.stage import Inputs, Kind, Stage, Summary


@dataclass(frozen=True, kw_only=True)
class AdoptConfig:
    """The file, its network, and what the file does not contain (default: the architecture's)."""

    checkpoint: Path = setting(
        help="a safetensors or PyTorch file of any name, a folder of Hugging Face transformers, or "
        "a checkpoint folder, which contains all settings below"
    )
    architecture: str | None = setting(
        None, "network of a file, see `videopipe models`; a folder names it itself"
    )
    head: Literal["new", "drop", "strict"] | None = setting(
        None,
        "new: do not take the file's head; drop: no head, an encoder; strict: the file's head must "
        "fit; null: the file's head where it fits, else a new one",
    )
    entry: str | None = setting(None, "which weights, if the file has several (state_dict_ema)")
    labels: tuple[str, ...] | None = setting(None, "class names, in order")
    labels_file: Path | None = setting(None, "class names, one on each line, or JSON")
    mean: tuple[float, ...] | None = setting(None, "per channel, of values in [0, 1]")
    std: tuple[float, ...] | None = setting(None, "per channel, of values in [0, 1]")
    image_size: int | None = setting(None, "side of the input", unit="pixels")
    crop: float | None = setting(None, "fraction of the short side that the crop takes")
    interpolation: Literal["bilinear", "bicubic"] | None = setting(None, "filter of the resizing")
    squash: bool | None = setting(
        None, "scale whole frames to a square; otherwise keep the aspect ratio and crop"
    )
    num_frames: int | None = setting(None, "frames of a clip (3D networks)")
    clip_seconds: float | None = setting(None, "length of a clip", unit="seconds")
    options: dict[str, bool | int | float | str | tuple[int, ...]] = setting(
        default_factory=dict, help="options of the architecture, such as mixer: s4nd"
    )

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels_file is not None:
            raise ValueError("give 'labels' or 'labels_file', not both")
        if self.crop is not None and not 0 < self.crop <= 1:
            raise ValueError(f"'crop' is {self.crop}; it is a fraction, such as 0.875")


def run(config: AdoptConfig, inputs: Inputs, out: Path) -> Summary:
    """Write the checkpoint folder and `adoption.json`, the report of every tensor."""
    from pretrained_2d.checkpoints.foreign import Adoption, adopt
    from pretrained_2d.checkpoints.foreign.hugging_face.hugging_face_folder import read_hugging_face
    from pretrained_2d.checkpoints.foreign.labels import read_labels
    from pretrained_2d.errors import CheckpointError

    of_transformers = read_hugging_face(config.checkpoint) is not None
    if config.checkpoint.is_dir() and not of_transformers:
        return _take_over(config, out)
    if config.architecture is None and not of_transformers:
        raise CheckpointError(
            f"{config.checkpoint} is a file of weights: set 'architecture' to its network "
            "(`videopipe models` lists them)"
        )
    labels = config.labels if config.labels_file is None else read_labels(str(config.labels_file))
    request = settings_of(Adoption, config, architecture=config.architecture or "", labels=labels)
    card, report = adopt(request, out)
    return {
        "architecture": card.architecture,
        "axes": card.ndim,
        "tensors": report.matched,
        "matched_by": report.convention,
        "left_out": len(report.left_out),
        "newly_initialised": len(report.new),
    }


def _take_over(config: AdoptConfig, out: Path) -> Summary:
    """Copy a checkpoint folder, after loading it once to check that it is complete."""
    import shutil

    from pretrained_2d.checkpoints.folder import CARD, WEIGHTS
    from pretrained_2d.errors import CheckpointError
    from videopipe.models import load_model

    network, card = load_model(config.checkpoint)
    recorded = {
        "architecture": card.architecture,
        **{f"options.{k}": v for k, v in card.options.items()},
    }
    given = {f"options.{name}": value for name, value in config.options.items()}
    for entry in fields(config):
        value = getattr(config, entry.name)
        if entry.name not in ("checkpoint", "options") and value is not None:
            given[entry.name] = value
    for name, value in given.items():
        if _plain(recorded.get(name)) != _plain(value):
            words = f" with {recorded[name]}" if name in recorded else ", which contains it"
            raise CheckpointError(
                f"'{name}' is set to {value}, but {config.checkpoint} is a checkpoint folder"
                f"{words}; leave '{name}' out"
            )
    for name in (WEIGHTS, CARD):
        shutil.copyfile(config.checkpoint / name, out / name)
    return {
        "architecture": card.architecture,
        "axes": card.ndim,
        "tensors": len(network.state_dict()),
        "matched_by": "its own config.json",
        "left_out": 0,
        "newly_initialised": 0,
    }


def _plain(value: object) -> object:
    """Tuples as lists, as in JSON."""
    return list(value) if isinstance(value, tuple) else value


STAGE = Stage(config=AdoptConfig, run=run, version=1, output=Kind.BACKBONE)
