"""What decides the scores (`Scoring`), and what only decides how fast they come (`Execution`)."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pretrained_2d.setting import setting

if TYPE_CHECKING:
    from pretrained_2d.card import ModelCard

DEFAULT_NUM_FRAMES, DEFAULT_CLIP_SECONDS = 8, 2.0  # for image networks, whose cards name none
Precision = Literal["fp32", "bf16", "fp16"]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a video becomes scores. Evaluation and prediction share these defaults."""

    clips: int | None = setting(None, "clips per video, evenly spread; none: cover all of it")
    crops: Literal[1, 3] = setting(
        1, "crops of each clip: the centre, or three along the long side"
    )
    average: Literal["logits", "probabilities"] = setting("logits", "what is averaged over clips")
    windows: bool = setting(False, "one result per window of clip_seconds instead of per video")
    stride_seconds: float | None = setting(
        None, "from window to window; none: windows do not overlap", unit="seconds"
    )
    num_frames: int | None = setting(None, "frames per clip; none: as the checkpoint says")
    clip_seconds: float | None = setting(
        None, "length of a clip; none: as the checkpoint says", unit="seconds"
    )
    precision: Precision = setting("fp32", "of the matrix products")
    decoder: str = setting("auto", "decoding backend")
    embeddings: bool = setting(False, "keep what the classifier sees, too")

    def __post_init__(self) -> None:
        _at_least("clips", self.clips, 1)
        _at_least("num_frames", self.num_frames, 1)
        _above_zero("clip_seconds", self.clip_seconds)
        _above_zero("stride_seconds", self.stride_seconds)
        if self.crops not in (1, 3):
            raise ValueError(f"crops is {self.crops}; expected 1 or 3")
        if self.stride_seconds is not None and not self.windows:
            raise ValueError("stride_seconds is for windows; set windows as well")
        if self.clips is not None and self.windows:
            raise ValueError("clips is for whole videos; leave it out with windows")

    def clip_shape(self, card: "ModelCard") -> tuple[int, float]:
        """Frames and seconds of a clip, for the model of this card."""
        num_frames = self.num_frames or card.num_frames or DEFAULT_NUM_FRAMES
        return num_frames, self.clip_seconds or card.clip_seconds or DEFAULT_CLIP_SECONDS


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and how the work is done. On a CPU no field here changes a bit of any score."""

    device: str = setting("auto", "auto, cpu, cuda, cuda:1, mps, …", runtime=True)
    workers: int | None = setting(None, "decoding processes; none: one per core", runtime=True)
    threads: int | None = setting(
        None, "clips computed at a time on a CPU; none: one per core", runtime=True
    )
    batch_size: int | None = setting(
        None, "clips per batch on a device; none: as many as fit, up to 64", runtime=True
    )
    timeout_seconds: float = setting(
        60.0, "longest silence of a decoder before its video is given up",
        unit="seconds", runtime=True,
    )  # fmt: skip
    memory_limit_gigabytes: float | None = setting(
        4.0, "memory a decoder may use", unit="gigabytes", runtime=True
    )
    compile: bool = setting(False, "torch.compile the model (devices only)", runtime=True)

    def __post_init__(self) -> None:
        _at_least("workers", self.workers, 1)
        _at_least("threads", self.threads, 1)
        _at_least("batch_size", self.batch_size, 1)
        _above_zero("timeout_seconds", self.timeout_seconds)
        _above_zero("memory_limit_gigabytes", self.memory_limit_gigabytes)

    @property
    def num_workers(self) -> int:
        """Decoding processes of this process."""
        return self.workers or available_cores()

    @property
    def num_threads(self) -> int:
        """Clips computed at a time on a CPU."""
        return self.threads or available_cores()

    @property
    def memory_limit_bytes(self) -> int | None:
        """What one decoding process may use."""
        gigabytes = self.memory_limit_gigabytes
        return None if gigabytes is None else round(gigabytes * 2**30)


def available_cores() -> int:
    """Cores this process may use, shared fairly with others that `accelerate launch` started."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _at_least(name: str, value: int | None, smallest: int) -> None:
    if value is not None and value < smallest:
        raise ValueError(f"{name} is {value}; expected {smallest} or more")


def _above_zero(name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{name} is {value}; expected more than 0")
