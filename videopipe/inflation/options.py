"""The options of an inflation. No torch here: stages and commands read this file."""

from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args, get_origin, get_type_hints

from pretrained_2d.setting import setting
from videopipe.errors import VideopipeError

Method = Literal["s4nd", "i3d", "s3d", "center", "shift", "adapter", "attention", "none"]
Padding = Literal["replicate", "zeros"]
# The names of s4nd.kernels.bases.BASES, as a test checks.
Basis = Literal[
    "legs",
    "fourier",
    "hippo",
    "random-linear",
    "random-inv",
    "diag-lin",
    "diag-inv",
    "diag-legs",
    "diag-real",
]


class InflationError(VideopipeError, ValueError):
    """A network cannot be inflated with these options."""


@dataclass(frozen=True, kw_only=True)
class InflationOptions:
    """How a 2D network gains its time axis. Lengths along time are in steps of its time grid."""

    method: Method = setting(
        "s4nd",
        "s4nd: a global state-space kernel; i3d: the 2D kernel repeated over time; s3d: 2D, then a "
        "short kernel along time; center: the 2D kernel in the middle frame; shift: channels of "
        "neighbouring steps, without parameters; adapter: a bottleneck with a kernel along time, "
        "for frozen networks; attention: along time; none: frames are only averaged",
    )
    layers: str = setting(
        "spatial>1",
        "which layers mix time: all, depthwise, spatial>1 (kernels above one pixel, and "
        "attention), or a pattern of names (stages.*.conv_dw, re:blocks\\.[0-5]\\.)",
    )
    axis: Literal["time", "depth"] = setting(
        "time", "what the new axis is: depth for volumes, which changes the words of messages only"
    )
    num_frames: int = setting(30, "frames of a clip", unit="frames")
    clip_seconds: float = setting(2.0, "duration of a clip", unit="seconds")
    temporal_patch: int = setting(
        1, "frames the first layer takes as one step (the paper: 2)", unit="frames"
    )
    temporal_kernel: int = setting(
        3, "length of the kernels of i3d, s3d, center and adapter", unit="steps"
    )
    padding: Padding = setting(
        "replicate", "beyond the ends of a clip; replicate keeps a still video exact"
    )
    scale: Literal["length", "none"] = setting(
        "length", "divide repeated kernels by their length, or not (as the paper's released run)"
    )
    temporal_weights: Literal["layer", "channel"] = setting(
        "layer", "s3d: one vector along time per layer (the paper's baseline) or per channel"
    )
    temporal_pool: tuple[str, ...] = setting(
        (), "names or patterns of blocks after which neighbouring steps are averaged"
    )
    start: Literal["difference", "identity", "deterministic", "random", "paper"] = setting(
        "difference",
        "s4nd: a delta plus a random kernel that responds to changes between frames only; a delta; "
        "the first basis function with gain 1; random; or the first basis function in both "
        "directions with gain 2, as released with the paper",
    )
    length: float | None = setting(
        4.0, "s4nd: initial kernel length; none draws it per channel", unit="steps"
    )
    basis: Basis = setting("diag-lin", "s4nd: the functions that a kernel is made of")
    state: int = setting(64, "s4nd: size of the state space, even")
    copies: int | None = setting(1, "s4nd: independent state spaces; none: one per channel")
    bidirectional: bool = setting(
        True, "mix past and future steps; if not, only past ones, as streaming needs"
    )
    adapter_kernel: Literal["taps", "s4nd"] = setting(
        "taps", "adapter: a kernel of temporal_kernel taps, or a state-space kernel"
    )
    adapter_width: int | None = setting(
        None, "adapter: channels of the bottleneck; none: a quarter of the layer's"
    )
    attention_heads: int | None = setting(
        None, "attention: number of heads; none: one per 64 channels"
    )

    def __post_init__(self) -> None:
        """Raise ValueError with the name and the value of the first option that cannot work."""
        for name, words in _choices().items():
            if getattr(self, name) not in words:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; expected one of {', '.join(words)}"
                )
        for name in ("num_frames", "temporal_patch", "temporal_kernel"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("adapter_width", "attention_heads", "copies"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, or none, got {value}")
        if self.num_frames < self.temporal_patch:
            raise ValueError(
                f"num_frames ({self.num_frames}) must be at least temporal_patch "
                f"({self.temporal_patch}), the frames that the first layer takes at once"
            )
        if self.clip_seconds <= 0:
            raise ValueError(f"clip_seconds must be above 0, got {self.clip_seconds}")
        if self.length is not None and self.length <= 0:
            raise ValueError(f"length must be above 0 steps of time, got {self.length:g}")
        if self.state < 2 or self.state % 2:
            raise ValueError(f"state must be an even number from 2 up, got {self.state}")
        if self.method == "center" and self.bidirectional and self.temporal_kernel % 2 == 0:
            raise ValueError(
                f"temporal_kernel must be odd for method center, got {self.temporal_kernel}: "
                "an even kernel has no middle frame"
            )

    @property
    def frame_word(self) -> str:
        """What messages call one position of the new axis."""
        return "frame" if self.axis == "time" else "slice"

    @property
    def num_steps(self) -> int:
        """Length of the network's time grid after its first layer."""
        return self.num_frames // self.temporal_patch


@cache
def _choices() -> dict[str, tuple[str, ...]]:
    """The accepted values of each option that has a fixed set of them."""
    hints = get_type_hints(InflationOptions)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
