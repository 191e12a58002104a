"""Train a network on images or clips, in one or several processes, resumable after any kill."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.randomness import Sample
from pretrained_2d.training.optimiser import ParameterGroup
from pretrained_2d.training.recipe import Recipe

Evaluate = Callable[[nn.Module], Mapping[str, float]]


class TrainingItems(Protocol):
    """Training data: `data[Sample(…)]` is (signal uint8 or float, target)."""

    def __len__(self) -> int: ...

    def __getitem__(self, sample: Sample) -> tuple[Tensor, Any]: ...


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Training on one dataset at one resolution; warm-up and decay start again in each phase."""

    data: TrainingItems
    epochs: int
    normalize: Callable[[Tensor], Tensor]  # of a whole batch on the device -> float
    rate: float = 1.0  # base samples per sample, for S4ND layers
    begin: Callable[[nn.Module], None] | None = None  # at the start, and again on resume
    card: ModelCard | None = None  # of networks kept in this phase, if it differs


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of a run, for a progress bar."""

    step: int  # done
    total_steps: int
    epoch: int
    loss: float | None  # mean since the last line of the log
    lr: float
    eta_seconds: float | None


@dataclass(frozen=True)
class Best:
    """The best value of a metric so far."""

    value: float
    step: int
    epoch: int


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run; `out` holds the checkpoint, best/<metric> and last the others."""

    steps: int
    batch_size: int
    seconds: float  # in steps, over all resumes
    metrics: Mapping[str, float]  # of the last evaluation
    best: Mapping[str, Best]


@contextmanager
def tiny_numbers_flushed() -> Iterator[None]:
    """Treat numbers below 1e-38 as zero, in this thread and in those it starts meanwhile.

    CPUs compute slowly with denormal numbers: a step of a dense convolution with such weights took
    1.1 s instead of 0.08 s. They are too small to change a result.
    """
    before = not torch.tensor([1e-30]).mul(1e-9).item()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


@tiny_numbers_flushed()
def train(
    model: nn.Module,
    phases: Sequence[Phase],
    *,
    recipe: Recipe,
    card: ModelCard,
    out: Path,
    objective: str = "cross_entropy",
    evaluate: Evaluate | None = None,
    monitor: Sequence[str] = (),
    groups: Sequence[ParameterGroup] | None = None,
    on_progress: Callable[[TrainingProgress], None] | None = None,
) -> TrainingResult:
    """Train `model` in place and write a checkpoint to `out`; resumes a run that `out` holds.

    `evaluate` gets the network (its average, with EMA) in eval mode, in every process, and returns
    named numbers, the same everywhere. For each metric in `monitor` the best network is kept in
    `out/best/<metric>` (higher is better, lower for losses); `out` itself is the best by the first,
    or the last network when nothing is monitored. `groups` sets the learning rates of the
    parameters (`optimiser.parameter_groups` when not given).

    Raises:
        TrainingError: the loss is not finite, a batch does not fit in memory, or `out` holds a run
            with other settings.
    """
    from pretrained_2d.training.loop import TrainingRun

    run = TrainingRun(
        model,
        phases,
        recipe=recipe,
        card=card,
        out=out,
        objective=objective,
        evaluate=evaluate,
        monitor=tuple(monitor),
        groups=groups,
        on_progress=on_progress,
    )
    return run.complete()
