"""Progress of a training run: sums over samples, metrics.jsonl, TensorBoard."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from pretrained_2d.errors import TrainingError
from pretrained_2d.training.efficiency.memory import peak_memory_bytes
from pretrained_2d.training.optimiser import ParameterGroup
from pretrained_2d.training.outputs.metrics_log import MetricsLog
from pretrained_2d.training.recipe import Recipe


class TrainingReport:
    """Sums since the last line of the log, kept on the device until they are written."""

    def __init__(
        self, accelerator: Accelerator, recipe: Recipe, groups: Sequence[ParameterGroup], out: Path
    ) -> None:
        self.accelerator, self.recipe, self.groups = accelerator, recipe, groups
        self.log = MetricsLog(out / "metrics.jsonl")
        self.seconds = 0.0  # in steps, over all resumes
        self.last_loss: float | None = None
        self.last_state: Path | None = None
        self.clear()

    def clear(self) -> None:
        """Reset the sums."""
        # loss, right answers, samples; and the first step that was not finite
        self.totals = torch.zeros(4, device=self.accelerator.device)  # nothing is copied to it
        self.totals[3] = math.inf
        self.steps, self.step_seconds, self.data_seconds = 0, 0.0, 0.0

    def add_samples(self, loss: Tensor, correct: Tensor, count: int, step: int) -> None:
        """Sums over `count` samples of this process."""
        self.totals[:3] += torch.stack([loss, correct, torch.full_like(loss, count)])
        self.note_finiteness(loss, step)

    def note_finiteness(self, value: Tensor, step: int) -> None:
        """Record the first step with a loss or a gradient that is not finite."""
        bad = torch.where(torch.isfinite(value), math.inf, float(step))
        self.totals[3] = torch.minimum(self.totals[3], bad)

    def add_step(self, seconds: float, data_seconds: float) -> None:
        """One more step, with the time it took and the part of it spent waiting for data."""
        self.steps += 1
        self.seconds += seconds
        self.step_seconds += seconds
        self.data_seconds += data_seconds

    def eta_seconds(self, steps_left: int) -> float | None:
        """Estimated time left, from the steps since the last line."""
        return steps_left * self.step_seconds / self.steps if self.steps else None

    def gather(self, factor: float) -> list[float]:
        """Loss, right answers and samples, summed over all processes.

        Raises:
            TrainingError: in every process, when any process met a loss that is not finite.
        """
        everyone = self.accelerator.gather(self.totals[None])  # (processes, 4)
        first_bad = float(everyone[:, 3].min())
        if math.isfinite(first_bad):
            lrs = ", ".join(f"{group.name} {group.lr * factor:.3g}" for group in self.groups)
            raise TrainingError(
                f"the loss or its gradient is not finite at step {int(first_bad)} (learning rate:"
                f" {lrs}); last good training state: {self.last_state or 'none was written yet'}."
                " Lower lr, lengthen the warm-up or set clip_grad_norm"
            )
        return everyone[:, :3].sum(dim=0).tolist()

    def write_training(
        self, step: int, epoch: int, factor: float, gradient_norm: Tensor, steps_left: int
    ) -> None:
        """A line about the steps since the last one."""
        loss, correct, samples = self.gather(factor)
        self.last_loss = loss / samples
        record = {
            "kind": "train",
            "step": step,
            "epoch": epoch,
            "loss": self.last_loss,
            "accuracy": correct / samples,
            "samples": int(samples),
            "lr": self.recipe.lr * factor,
            **{f"lr/{group.name}": group.lr * factor for group in self.groups},
            "gradient_norm": float(gradient_norm),
            "samples_per_second": samples / max(self.step_seconds, 1e-9),
            "step_seconds": self.step_seconds / max(1, self.steps),
            "data_seconds": self.data_seconds / max(1, self.steps),
            "memory_bytes": peak_memory_bytes(self.accelerator.device),
            "eta_seconds": self.eta_seconds(steps_left),
            "time": time.time(),
        }
        self.clear()
        self._write(record)

    def write_evaluation(self, step: int, epoch: int, metrics: Mapping[str, float]) -> None:
        """A line with the numbers of an evaluation."""
        self._write({"kind": "evaluation", "step": step, "epoch": epoch, **metrics})

    def _write(self, record: Mapping[str, Any]) -> None:
        if self.accelerator.is_main_process:
            self.log.append(record)
        if self.recipe.tensorboard:
            numbers = {
                f"{record['kind']}/{name}": value
                for name, value in record.items()
                if isinstance(value, int | float) and name not in ("step", "time")
            }
            self.accelerator.log(numbers, step=int(record["step"]))

    def state(self, factor: float) -> dict[str, Any]:
        """What a resumed run needs to write the same lines."""
        return {
            "totals": self.gather(factor),
            "log_bytes": self.log.size() if self.accelerator.is_main_process else 0,
            "seconds": self.seconds,
        }

    def restore(self, state: Mapping[str, Any], path: Path) -> None:
        """Resume from `state`, read from `path`; later lines of the log are cut off."""
        self.seconds, self.last_state = state["seconds"], path
        if self.accelerator.is_main_process:
            self.totals[:3] = torch.tensor(state["totals"])
            self.log.cut(state["log_bytes"])
