"""The paper's recipe for HMDB-51 (appendix B.2), as defaults. No torch here: stages read this."""

from dataclasses import dataclass
from typing import Literal

from pretrained_2d.setting import setting
from pretrained_2d.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class FinetuneRecipe(Recipe):
    """AdamW for 50 epochs of batches of 64, cosine without warm-up, no weight averaging."""

    epochs: int = setting(50, "passes over the training videos, one random clip of each")
    batch_size: int | Literal["auto"] = setting(
        64, "clips per optimiser step, over all processes; auto halves until it fits", unit="clips"
    )
    accumulation: int = setting(8, "parts a batch is computed in: 8 clips of 64 at once")
    lr: float = setting(1e-4, "peak learning rate")
    weight_decay: float = setting(0.2, "of AdamW; biases, norms and state spaces do not decay")


@dataclass(frozen=True, kw_only=True)
class ClipAugmentation:
    """Augmentation of a training clip, the same for all its frames."""

    rand_augment_layers: int = setting(1, "RandAugment: operations in a row; 0 is off")
    rand_augment_magnitude: float = setting(7.0, "RandAugment: strength, 0 to 10")
    rand_augment_probability: float = setting(0.5, "RandAugment: probability of each operation")
    scale: tuple[float, float] = setting(
        (256 / 224, 320 / 224),
        "short side before the crop, drawn between these multiples of the image size (the paper: "
        "256 to 320 pixels for crops of 224)",
    )
    flip: float = setting(0.5, "probability of mirroring left and right; 0 if direction matters")
    shuffle_frames: bool = setting(
        False, "train on the frames of a clip in random order, without information on motion"
    )

    def __post_init__(self) -> None:
        if self.rand_augment_layers < 0:
            raise ValueError(
                f"rand_augment_layers is {self.rand_augment_layers}, expected 0 or more"
            )
        if not 0 <= self.rand_augment_magnitude <= 10:
            raise ValueError(
                f"rand_augment_magnitude is {self.rand_augment_magnitude}, expected 0 to 10"
            )
        if not 1 <= self.scale[0] <= self.scale[1]:
            raise ValueError(f"scale is {self.scale}, expected two multiples from 1 up, in order")
        for name in ("flip", "rand_augment_probability"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, expected a probability from 0 to 1"
                )
