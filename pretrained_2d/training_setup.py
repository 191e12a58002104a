"""The parts a training run is put together from: processes, loaders, and where each phase lies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, GradientAccumulationPlugin
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pretrained_2d.batches import BatchPlan, Shares, StepBatches
from pretrained_2d.errors import TrainingError
from pretrained_2d.loading import worker_context, worker_count
from pretrained_2d.objective import collate
from pretrained_2d.recipe import Recipe
from pretrained_2d.training import Phase

WAYS_TO_RUN = (DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU)


def start_processes(recipe: Recipe, out: Path) -> Accelerator:
    """Accelerate for this run: the processes it was launched with, the recipe's precision."""
    # Accelerate fixes the precision once per Python process; a pipeline trains several times.
    AcceleratorState._reset_state()
    try:
        accelerator = Accelerator(
            mixed_precision="no" if recipe.precision == "fp32" else recipe.precision,
            cpu=recipe.device == "cpu",
            # The loop divides by the batch itself, also where parts are unequal.
            gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=1),
            log_with="tensorboard" if recipe.tensorboard else None,
            project_dir=out / "logs" if recipe.tensorboard else None,
        )
    except ValueError as error:
        if "tensorboard" in str(error).lower():
            raise TrainingError(
                "tensorboard: true needs TensorBoard; pip install 'videopipe[tensorboard]'"
            ) from error
        raise
    if recipe.precision == "fp16" and accelerator.device.type == "cpu":
        # Accelerate would train in fp32 without a word.
        raise TrainingError("precision is fp16, which needs a GPU; use bf16 or fp32 on a CPU")
    if accelerator.distributed_type not in WAYS_TO_RUN:
        raise TrainingError(
            f"accelerate was configured for {accelerator.distributed_type.value}; training runs in"
            " one process, on several GPUs (--multi_gpu) or in several CPU processes (--cpu)"
        )
    return accelerator


@contextmanager
def naming_the_precision(precision: str) -> Iterator[None]:
    """Say what to do where a CPU has no kernel for a product in half precision."""
    try:
        yield
    except RuntimeError as error:
        if precision == "fp32" or "could not create a primitive" not in str(error):
            raise
        raise TrainingError(
            f"precision is {precision}, and this CPU cannot compute a layer in it ({error});"
            " use precision: fp32 here"
        ) from error


@dataclass(frozen=True)
class Span:
    """A phase and the steps and epochs it covers."""

    phase: Phase
    plan: BatchPlan
    first_step: int
    first_epoch: int

    @property
    def end(self) -> int:
        """The step after its last."""
        return self.first_step + self.phase.epochs * self.plan.steps_per_epoch


def lay_out(phases: Sequence[Phase], recipe: Recipe, batch_size: int) -> list[Span]:
    """The phases one after the other."""
    spans: list[Span] = []
    step = epoch = 0
    for phase in phases:
        plan = BatchPlan(
            num_items=len(phase.data),
            batch_size=batch_size,
            seed=recipe.seed,
            repeats=recipe.repeats,
            drop_last=recipe.drop_last,
        )
        spans.append(Span(phase, plan, step, epoch))
        step, epoch = spans[-1].end, epoch + phase.epochs
    return spans


def load_batches(
    span: Span, shares: Shares, recipe: Recipe, *, start: int, pin_memory: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """This process's parts of the batches from step `start` to the end of the phase.

    One iterator for all epochs: workers stay alive, and a resumed run loads nothing it skips.
    """
    batches = StepBatches(
        span.plan,
        shares,
        first_epoch=span.first_epoch,
        start=start - span.first_step,
        stop=span.end - span.first_step,
    )
    loader: DataLoader[Any] = DataLoader(
        cast(Dataset[Any], span.phase.data),
        batch_sampler=batches,
        num_workers=worker_count(recipe.workers),
        multiprocessing_context=worker_context() if recipe.workers else None,
        collate_fn=collate,
        pin_memory=pin_memory,
        generator=torch.Generator(),
    )
    return iter(loader)
