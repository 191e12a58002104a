"""The settings of a fine-tuning. No torch here: stages and commands read this file."""

from dataclasses import dataclass
from typing import Literal

from pretrained_2d.setting import setting
from videopipe.finetuning.finetune_recipe import ClipAugmentation, FinetuneRecipe

Protocol = Literal["validation", "paper", "last"]
Freeze = Literal["nothing", "backbone", "space"]


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """How a video network is trained; the defaults are those of the paper."""

    recipe: FinetuneRecipe = setting(default_factory=FinetuneRecipe, help="how to train")
    augmentation: ClipAugmentation = setting(
        default_factory=ClipAugmentation, help="of training clips"
    )
    protocol: Protocol = setting(
        "validation",
        "which checkpoint is kept: the best on validation videos; the best on the test videos, as "
        "the authors did (accuracies are too high); or the last one, trained on val videos too",
    )
    num_frames: int | None = setting(
        None, "frames per clip; null: as in the checkpoint", unit="frames"
    )
    clip_seconds: float | None = setting(
        None, "length of a clip; null: as in the checkpoint", unit="seconds"
    )
    drop_path: float = setting(0.2, "stochastic depth of the last block")
    head_dropout: float = setting(0.2, "dropout before the classifier")
    freeze: Freeze = setting(
        "nothing", "backbone: train only the head; space: train only the head and the time axis"
    )
    freeze_patterns: tuple[str, ...] = setting(
        (), "also freeze parameters whose names match, such as stages.0.*"
    )
    freeze_batch_norm: bool = setting(
        False, "batch norms use the statistics of the pretraining; for small batches"
    )
    layer_decay: float = setting(
        1.0, "factor of the learning rate from each layer to the one before it; 1: no decay"
    )
    time_lr_scale: float = setting(
        1.0,
        "factor of the learning rate of the time axis; use less than 1 if no norm follows its "
        "kernels or freeze_batch_norm is set",
    )
    validation_clips: int | None = setting(
        None, "clips per video in validation; null: as many as cover it"
    )
    max_failed: float = setting(
        0.05,
        "the stage fails when more than this fraction of the readable validation videos has no "
        "scores; the same command then resumes it",
        runtime=True,
    )
    timeout_seconds: float = setting(
        60.0, "longest time to decode a training clip", unit="seconds", runtime=True
    )
    decoding_workers: int | None = setting(
        None, "processes that decode for validation; null: one per core", runtime=True
    )

    def __post_init__(self) -> None:
        for name in ("drop_path", "head_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected within [0, 1)")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay is {self.layer_decay}, expected within (0, 1]")
        if not 0 < self.time_lr_scale <= 1:
            raise ValueError(f"time_lr_scale is {self.time_lr_scale}, expected within (0, 1]")
        if not 0 <= self.max_failed <= 1:
            raise ValueError(f"max_failed is {self.max_failed}, expected a fraction from 0 to 1")
        for name in (
            "num_frames",
            "clip_seconds",
            "validation_clips",
            "decoding_workers",
            "timeout_seconds",
        ):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}, expected more than 0")
