"""Settings that decide the scores (`Scoring`) and settings of their computation (`Execution`)."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from pretrained_2d.setting import setting

if TYPE_CHECKING:
    from pretrained_2d.checkpoints.card import ModelCard

DEFAULT_NUM_FRAMES, DEFAULT_CLIP_SECONDS = 8, 2.0  # for image networks, whose cards have none
Precision = Literal["fp32", "bf16", "fp16"]
Average = Literal["logits", "probabilities"]
FrameOrder = Literal["given", "shuffled", "reversed"]
Decoder = Literal["auto", "av", "torchcodec", "decord", "pytorchvideo"]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a video becomes scores. Evaluation and prediction share these defaults."""

    clips: int | None = setting(None, "clips per video, evenly spread; null: cover the whole video")
    crops: Literal[1, 3] = setting(
        1, "crops of each clip: the centre, or three along the long side"
    )
    average: Average = setting("logits", "what is averaged over clips")
    windows: bool = setting(False, "one result per window of clip_seconds instead of per video")
    stride_seconds: float | None = setting(
        None, "step from window to window; null: windows do not overlap", unit="seconds"
    )
    num_frames: int | None = setting(None, "frames per clip; null: that of the checkpoint")
    clip_seconds: float | None = setting(
        None, "length of a clip; null: that of the checkpoint", unit="seconds"
    )
    precision: Precision = setting("fp32", "precision of the matrix products")
    decoder: Decoder = setting("auto", "decoding backend")
    frame_order: FrameOrder = setting(
        "given", "order of the frames of a clip; shuffled and reversed test for the use of motion"
    )
    embeddings: bool = setting(False, "keep the input of the classifier too")
    within_shots: bool = setting(
        False,
        "clips and windows do not cross a cut between shots; every frame is decoded once more to "
        "find the cuts",
        added=True,
    )

    def __post_init__(self) -> None:
        _at_least("clips", self.clips, 1)
        _at_least("num_frames", self.num_frames, 1)
        _above_zero("clip_seconds", self.clip_seconds)
        _above_zero("stride_seconds", self.stride_seconds)
        _one_of("crops", self.crops, (1, 3))
        _one_of("average", self.average, get_args(Average))
        _one_of("precision", self.precision, get_args(Precision))
        _one_of("decoder", self.decoder, get_args(Decoder))
        _one_of("frame_order", self.frame_order, get_args(FrameOrder))
        if self.stride_seconds is not None and not self.windows:
            raise ValueError("stride_seconds is for windows; set windows as well")
        if self.clips is not None and self.windows:
            raise ValueError("clips is for whole videos; leave it out with windows")
        if self.clips is not None and self.within_shots:
            raise ValueError(
                "clips is for clips spread over a whole video; leave it out with within_shots"
            )

    def identity(self) -> dict[str, Any]:
        """All settings as JSON; one that was added later only where it is not at its default."""
        added = {field.name: field.default for field in fields(self) if field.metadata["added"]}
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in added or value != added[name]
        }

    def clip_shape(self, card: "ModelCard") -> tuple[int, float]:
        """Frames and seconds of a clip, for the model of this card."""
        num_frames = self.num_frames or card.num_frames or DEFAULT_NUM_FRAMES
        return num_frames, self.clip_seconds or card.clip_seconds or DEFAULT_CLIP_SECONDS


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and how the work is done. On a CPU no field here changes a bit of any score.

    The limits decide which videos fail: raising one retries them.
    """

    device: str = setting("auto", "auto, cpu, cuda, cuda:1, mps, …", runtime=True)
    workers: int | None = setting(None, "decoding processes; null: one per core", runtime=True)
    threads: int | None = setting(
        None, "clips computed at a time on a CPU; null: one per core", runtime=True
    )
    batch_size: int | None = setting(
        None, "clips per batch on a device; null: as many as fit, up to 64", runtime=True
    )
    timeout_seconds: float = setting(
        60.0, "longest time without a frame before decoding is stopped",
        unit="seconds", limit=True,
    )  # fmt: skip
    memory_limit_gigabytes: float | None = setting(
        4.0, "memory a decoder may use", unit="gigabytes", limit=True
    )
    max_clips_per_video: int | None = setting(
        100_000, "a video with more clips gets the status too_long; null: no limit", limit=True
    )
    max_seconds_per_video: float | None = setting(
        7200.0, "decoding time after which a video gets the status too_long; null: no limit",
        unit="seconds", limit=True,
    )  # fmt: skip
    compile: bool = setting(False, "torch.compile the model (devices only)", runtime=True)

    def __post_init__(self) -> None:
        _at_least("workers", self.workers, 1)
        _at_least("threads", self.threads, 1)
        _at_least("batch_size", self.batch_size, 1)
        _above_zero("timeout_seconds", self.timeout_seconds)
        _above_zero("memory_limit_gigabytes", self.memory_limit_gigabytes)
        _at_least("max_clips_per_video", self.max_clips_per_video, 1)
        _above_zero("max_seconds_per_video", self.max_seconds_per_video)

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
        """Memory limit of one decoding process."""
        gigabytes = self.memory_limit_gigabytes
        return None if gigabytes is None else round(gigabytes * 2**30)


def available_cores() -> int:
    """Cores of this process, divided among the processes that `accelerate launch` started."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def _one_of(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected {', '.join(map(str, choices))}")


def _at_least(name: str, value: int | None, smallest: int) -> None:
    if value is not None and value < smallest:
        raise ValueError(f"{name} is {value}; expected {smallest} or more")


def _above_zero(name: str, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"{name} is {value}; expected more than 0")
