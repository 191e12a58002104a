"""The training recipe: optimiser, schedule, regularisation, logging."""

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from pretrained_2d.setting import setting


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run. The defaults are plain: no mixing, no smoothing, no average of weights."""

    epochs: int = setting(100, "passes over the training data")
    batch_size: int | Literal["auto"] = setting(
        64,
        "per optimiser step, over all processes; auto halves from 1024 until it fits",
        unit="samples",
    )
    accumulation: int = setting(1, "parts a batch is computed in, to need less memory")

    optimiser: str = setting(
        "adamw",
        "adamw (torch's, fused), or the name of an optimiser of timm: lamb, lion, muon, …",
        added=True,
    )
    lr: float = setting(1e-3, "peak learning rate")
    state_space_lr: float | None = setting(
        None, "peak learning rate of state-space parameters; as lr when not given"
    )
    weight_decay: float = setting(0.05, "of AdamW; biases, norms and state spaces do not decay")
    betas: tuple[float, float] = setting((0.9, 0.999), "momentum of AdamW")
    warmup_steps: int = setting(0, "linear warm-up at the start of each phase", unit="steps")
    warmup_epochs: float = setting(0.0, "warm-up in epochs, instead of warmup_steps", unit="epochs")
    warmup_lr: float = setting(0.0, "learning rate at the start of the warm-up")
    schedule: Literal["cosine", "constant"] = setting("cosine", "learning rate after the warm-up")
    schedule_steps: int | None = setting(
        None, "length of the cosine, warm-up included; the whole run when not given", unit="steps"
    )
    min_lr: float = setting(0.0, "learning rate at the end of the cosine")

    clip_grad_norm: float | None = setting(None, "clip the gradient to this norm")
    precision: Literal["fp32", "bf16", "fp16"] = setting("fp32", "precision of the matrix products")
    ema_decay: float | None = setting(None, "decay of the average of weights that is kept")
    label_smoothing: float = setting(0.0, "share of the target spread over all classes")
    mixup: float = setting(0.0, "alpha of Mixup; 0 is off")
    cutmix: float = setting(0.0, "alpha of CutMix; 0 is off")
    mix_probability: float = setting(1.0, "probability that a batch is mixed")
    repeats: int = setting(1, "repeated augmentation: views of each sample in a batch")
    drop_last: bool = setting(True, "leave out the last, smaller batch of an epoch")
    seed: int = setting(0, "random seed of order, augmentation and dropout")
    evaluate_every_epochs: int = setting(
        1, "interval of evaluations; the last epoch is always evaluated", unit="epochs"
    )

    checkpoint_every_steps: int | None = setting(
        500, "interval of saved states; null: at epoch ends only", unit="steps", runtime=True
    )
    keep_last: int = setting(2, "number of training states kept", runtime=True)
    log_every_steps: int = setting(50, "interval in metrics.jsonl", unit="steps", runtime=True)
    workers: int = setting(
        2, "processes that load data, per training process; at most one per core", runtime=True
    )
    device: Literal["auto", "cpu"] = setting(
        "auto", "auto takes a GPU when there is one", runtime=True
    )
    compile: bool = setting(False, "torch.compile the network", runtime=True)
    gradient_checkpointing: bool = setting(
        False, "compute blocks again in the backward pass, to need less memory", runtime=True
    )
    sharding: Literal["none", "full"] = setting(
        "none",
        "full: every process holds a part of each parameter (FSDP2), to need less memory",
        runtime=True,
    )
    tensorboard: bool = setting(False, "also write TensorBoard files to logs/", runtime=True)

    def __post_init__(self) -> None:
        for name in ("epochs", "accumulation", "repeats", "evaluate_every_epochs", "keep_last"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        for name in ("mixup", "cutmix", "warmup_steps", "warmup_epochs", "workers", "weight_decay"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        for name in ("checkpoint_every_steps", "log_every_steps", "schedule_steps"):
            value = getattr(self, name)
            _require(value is None or value >= 1, name, value, "at least 1")
        _require(
            self.batch_size == "auto" or self.batch_size >= 1,
            "batch_size",
            self.batch_size,
            "at least 1",
        )
        _require(
            self.sharding == "none" or self.batch_size != "auto",
            "batch_size",
            self.batch_size,
            "a number with sharding: full, where no process can run out of memory alone",
        )
        _require(self.lr > 0, "lr", self.lr, "above 0")
        _require(
            0 <= self.label_smoothing < 1, "label_smoothing", self.label_smoothing, "in [0, 1)"
        )
        _require(
            self.ema_decay is None or 0 < self.ema_decay < 1,
            "ema_decay",
            self.ema_decay,
            "in (0, 1)",
        )
        _require(
            not (self.warmup_steps and self.warmup_epochs),
            "warmup_steps",
            self.warmup_steps,
            "0 when warmup_epochs is given: one of the two",
        )

    @property
    def mixes(self) -> bool:
        """Whether batches are mixed by Mixup or CutMix."""
        return self.mixup > 0 or self.cutmix > 0

    def result_settings(self) -> dict[str, Any]:
        """The settings that change the result (not workers, log interval, …)."""
        kept = {item.name for item in fields(self) if not item.metadata.get("runtime")}
        return {name: value for name, value in asdict(self).items() if name in kept}

    def defaults_of_added(self) -> dict[str, Any]:
        """The defaults of settings that runs of earlier versions did not have."""
        return {item.name: item.default for item in fields(self) if item.metadata.get("added")}


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value}, expected {expected}")
