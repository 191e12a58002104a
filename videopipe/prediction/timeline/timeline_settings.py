"""How windows become intervals; imported by commands and stages, so without heavy libraries."""

from dataclasses import dataclass, replace

from pretrained_2d.setting import setting


@dataclass(frozen=True, kw_only=True)
class TimelineSettings:
    """Smoothing and thresholds of a timeline.

    The score of a class at a time is the mean over windows whose centres lie within half of
    `smooth_seconds`, near ones counting more. An interval is a stretch in which one class is the
    most probable one and stays at or above `off`; it must reach `on` somewhere, and last for
    `min_seconds`.
    """

    smooth_seconds: float | None = setting(
        None, "width of the smoothing; none: the length of a clip; 0: no smoothing", unit="seconds"
    )
    on: float = setting(0.5, "probability that an interval must reach")
    off: float = setting(0.3, "probability below which an interval ends")
    min_seconds: float = setting(0.0, "leave out shorter intervals", unit="seconds")

    def __post_init__(self) -> None:
        for name in ("smooth_seconds", "min_seconds"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} is {value}; expected 0 or more seconds")
        if not 0 < self.off <= self.on <= 1:
            raise ValueError(
                f"the thresholds are on {self.on} and off {self.off}; expected 0 < off ≤ on ≤ 1"
            )

    def for_clips(self, clip_seconds: float) -> "TimelineSettings":
        """The same settings, with the smoothing in seconds."""
        smooth = clip_seconds if self.smooth_seconds is None else self.smooth_seconds
        return replace(self, smooth_seconds=smooth)
