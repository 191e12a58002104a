"""Bring a checkpoint of another program into a pipeline."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pretrained_2d.setting import setting
from videopipe.stage import Inputs, Kind, Stage, Summary


@dataclass(frozen=True, kw_only=True)
class AdoptConfig:
    """Which file, which network, and what the file does not say (else the usual values)."""

    checkpoint: Path = setting(help="a file: .safetensors .pth .pt .bin .ckpt .pyth .tar")
    architecture: str = setting(help="which network; see `videopipe models`")
    entry: str | None = setting(None, "which weights, if the file has several (state_dict_ema)")
    labels: tuple[str, ...] | None = setting(None, "class names, in order")
    labels_file: Path | None = setting(None, "class names, one on each line, or JSON")
    mean: tuple[float, float, float] | None = setting(None, "of values in [0, 1]")
    std: tuple[float, float, float] | None = setting(None, "of values in [0, 1]")
    image_size: int | None = setting(None, "side of the input", unit="pixels")
    crop: float | None = setting(None, "fraction of the short side that the crop takes")
    interpolation: Literal["bilinear", "bicubic"] | None = setting(None, "of the resizing")
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
    from pretrained_2d.foreign import Adoption, adopt
    from pretrained_2d.foreign.labels import read_labels

    labels = config.labels
    if config.labels_file is not None:
        labels = read_labels(str(config.labels_file))
    request = Adoption(
        checkpoint=config.checkpoint,
        architecture=config.architecture,
        entry=config.entry,
        labels=labels,
        mean=config.mean,
        std=config.std,
        image_size=config.image_size,
        crop=config.crop,
        interpolation=config.interpolation,
        num_frames=config.num_frames,
        clip_seconds=config.clip_seconds,
        options=config.options,
    )
    card, report = adopt(request, out)
    return {
        "architecture": card.architecture,
        "axes": card.ndim,
        "tensors": report.matched,
        "matched_by": report.convention,
        "left_out": len(report.left_out),
        "newly_initialised": len(report.new),
    }


STAGE = Stage(config=AdoptConfig, run=run, version=1, output=Kind.BACKBONE)
