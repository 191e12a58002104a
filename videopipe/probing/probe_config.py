"""The settings of the stages `features` and `probe`. No torch here: stages read this file."""

from dataclasses import dataclass
from typing import Literal

from pretrained_2d.setting import setting
from pretrained_2d.training.recipe import Recipe
from videopipe.finetuning.finetune_config import Protocol
from videopipe.scoring.settings import Decoder, Execution, Precision

HeadName = Literal["mean", "attentive", "conv", "s4nd"]


@dataclass(frozen=True, kw_only=True)
class FeaturesConfig:
    """Which frames of each video the network sees, and how the work is done."""

    splits: tuple[str, ...] | None = setting(
        None, "splits to run over, such as [train, val]; null: every video"
    )
    num_frames: int | None = setting(
        None,
        "frames per view; null: that of the checkpoint, else 8. A video network takes a multiple "
        "of its own clip: each clip gives one feature vector",
        unit="frames",
    )
    frame_rate: float | None = setting(
        None, "frames per second of a view, in place of num_frames", unit="frames per second"
    )
    clip_seconds: float | None = setting(
        None, "length of a view; null: that of the checkpoint, else 2", unit="seconds"
    )
    views: int = setting(1, "views per video, spread evenly over time; 1 is the centre")
    mirror: bool = setting(
        False, "also keep every view mirrored left to right; not where direction matters"
    )
    precision: Precision = setting("fp32", "precision of the matrix products")
    decoder: Decoder = setting("auto", "decoding backend")
    max_failed: float = setting(
        0.05, "largest share of videos that may fail; above it the stage fails with the reasons"
    )
    execution: Execution = setting(
        default_factory=Execution, help="device, workers, batch size", runtime=True
    )

    def __post_init__(self) -> None:
        for name in ("num_frames", "frame_rate", "clip_seconds", "views"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}, expected more than 0")
        if self.num_frames is not None and self.frame_rate is not None:
            raise ValueError("give num_frames or frame_rate, not both")
        if not 0 <= self.max_failed <= 1:
            raise ValueError(f"max_failed is {self.max_failed}, expected a share from 0 to 1")


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """A head over features in time. `mean` uses dropout only, `attentive` width and heads."""

    head: HeadName = setting(
        "s4nd",
        "mean: linear on the mean over time; attentive: pooling by one learned query; conv: "
        "convolutions along time, then the mean; s4nd: S4ND along time, then the mean",
    )
    width: int = setting(256, "channels that the features are projected to (not for mean)")
    layers: int = setting(1, "residual blocks along time (conv, s4nd)")
    attention_heads: int = setting(4, "heads of the query (attentive); must divide width")
    kernel_size: int = setting(3, "taps of a convolution (conv); odd", unit="steps")
    state: int = setting(64, "size of the state space (s4nd)")
    length: float = setting(4.0, "initial length of the kernels (s4nd)", unit="steps")
    dropout: float = setting(0.2, "before the classifier, and inside the blocks")

    def __post_init__(self) -> None:
        for name in ("width", "layers", "attention_heads", "kernel_size", "length"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected more than 0")
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size is {self.kernel_size}, expected an odd number")
        if self.state < 2 or self.state % 2:
            raise ValueError(f"state is {self.state}, expected an even number from 2 up")
        if self.width % self.attention_heads:
            raise ValueError(
                f"attention_heads is {self.attention_heads}, expected a divisor of width "
                f"({self.width})"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout is {self.dropout}, expected within [0, 1)")


@dataclass(frozen=True, kw_only=True)
class ProbeRecipe(Recipe):
    """AdamW for 60 short epochs; the last smaller batch counts, since sets may be small."""

    epochs: int = setting(60, "passes over the training videos, one view of each")
    batch_size: int | Literal["auto"] = setting(
        32, "videos per optimiser step, over all processes", unit="videos"
    )
    lr: float = setting(1e-3, "peak learning rate")
    weight_decay: float = setting(0.05, "of AdamW; biases, norms and state spaces do not decay")
    drop_last: bool = setting(False, "leave out the last, smaller batch of an epoch")
    workers: int = setting(0, "processes that load features; 0: none", runtime=True)
    checkpoint_every_steps: int | None = setting(
        None, "steps between training states; null: at epoch ends", unit="steps", runtime=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mixes:
            raise ValueError("mixup and cutmix mix pictures; a probe learns from features")


@dataclass(frozen=True, kw_only=True)
class ProbeConfig(HeadConfig):
    """Which head, and how it is trained."""

    recipe: ProbeRecipe = setting(default_factory=ProbeRecipe, help="how to train")
    protocol: Protocol = setting(
        "validation",
        "the checkpoint kept is the best on validation videos; on the test videos, as the authors "
        "did (accuracies are too high); or the last one, with all training videos used",
    )
