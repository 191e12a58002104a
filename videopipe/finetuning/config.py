"""The settings of a fine-tuning. No torch here: stages and commands read this file."""

from dataclasses import dataclass
from typing import Literal

from pretrained_2d.setting import setting
from videopipe.finetuning.recipe import Augmentation, FinetuneRecipe


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """How a video network learns the videos of a data set; the defaults are the paper's."""

    recipe: FinetuneRecipe = setting(default_factory=FinetuneRecipe, help="how to train")
    augmentation: Augmentation = setting(default_factory=Augmentation, help="of training clips")
    protocol: Literal["validation", "paper", "last"] = setting(
        "validation",
        "the checkpoint kept is the best on validation videos; on the test videos, as the authors "
        "did, which flatters; or the last one, with all training videos used",
    )
    num_frames: int | None = setting(
        None, "per clip; as the checkpoint says when not given", unit="frames"
    )
    clip_seconds: float | None = setting(
        None, "of a clip; as the checkpoint says when not given", unit="seconds"
    )
    drop_path: float = setting(0.2, "stochastic depth of the last block")
    head_dropout: float = setting(0.2, "dropout before the classifier")
    freeze: Literal["nothing", "backbone", "space"] = setting(
        "nothing", "backbone: only the head learns; space: only the head and the time axis"
    )
    freeze_patterns: tuple[str, ...] = setting(
        (), "also freeze parameters whose names match, such as stages.0.*"
    )
    freeze_batch_norm: bool = setting(
        False, "batch norms keep the statistics of the pretraining, for small batches"
    )
    layer_decay: float = setting(
        1.0, "factor of the learning rate from each layer to the one before it; 1: all alike"
    )
    time_lr_scale: float = setting(
        1.0,
        "factor of the learning rate of the time axis; below 1 where no norm follows its kernels "
        "or freeze_batch_norm is set: many states together change a kernel quickly",
    )
    validation_clips: int | None = setting(
        None, "clips per video in validation; none: cover all of it"
    )
    decoding_workers: int | None = setting(
        None, "processes that decode for validation; none: one per core", runtime=True
    )

    def __post_init__(self) -> None:
        for name in ("drop_path", "head_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected within [0, 1)")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay is {self.layer_decay}, expected within (0, 1]")
        if not 0 < self.time_lr_scale <= 1:
            raise ValueError(f"time_lr_scale is {self.time_lr_scale}, expected within (0, 1]")
        for name in ("num_frames", "clip_seconds", "validation_clips", "decoding_workers"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}, expected more than 0")
