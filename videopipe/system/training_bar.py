"""The steps of a training as a progress bar."""

from typing import TYPE_CHECKING

from videopipe.system.progress import Bar

if TYPE_CHECKING:
    from pretrained_2d.training.train import TrainingProgress


class TrainingBar:
    """Counts the steps of a training; a resumed one begins at its first new step."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.shown: int | None = None

    def __call__(self, now: "TrainingProgress") -> None:
        """Show the step, the epoch, the loss and the learning rate."""
        if self.shown is None:
            self.shown = now.step - 1
            self.bar.resume(self.shown, now.total_steps)
        loss = "" if now.loss is None else f", loss {now.loss:.3f}"
        self.bar.advance(now.step - self.shown, note=f"epoch {now.epoch}{loss}, lr {now.lr:.2g}")
        self.shown = now.step
