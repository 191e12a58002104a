"""A training as a bar of progress."""

from typing import TYPE_CHECKING

from videopipe.progress import Bar

if TYPE_CHECKING:
    from pretrained_2d.training import TrainingProgress


class TrainingBar:
    """Moves a bar from 0 to 100 %, also when a resumed run begins in the middle."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.shown = bar, 0.0

    def __call__(self, now: "TrainingProgress") -> None:
        """Show where the training stands."""
        percent = 100 * now.step / now.total_steps
        loss = "" if now.loss is None else f", loss {now.loss:.3f}"
        self.bar.advance(percent - self.shown, note=f"epoch {now.epoch}{loss}, lr {now.lr:.2g}")
        self.shown = percent
