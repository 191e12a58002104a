"""Which samples make up which batch, and the workers that load them.

A batch is a function of (seed, epoch, index), the same for any number of processes, so that a run
can be resumed, split and repeated.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from pretrained_2d.errors import TrainingError
from pretrained_2d.randomness import Sample, derive_seed
from pretrained_2d.training.objective import collate
from pretrained_2d.training.recipe import Recipe
from pretrained_2d.training.train import Phase

Item = TypeVar("Item")
# Imported once in the server that workers are forked from; each would take seconds for it.
PRELOAD = ["torch", "torchvision.transforms.v2", "pretrained_2d.images.dataset"]


@dataclass(frozen=True)
class BatchPlan:
    """The batches of every epoch.

    With repeats r (repeated augmentation) each batch shows an item r times, differently augmented,
    and an epoch keeps its number of samples, so it shows 1/r of the items.
    """

    num_items: int
    batch_size: int
    seed: int
    repeats: int = 1
    drop_last: bool = True

    def __post_init__(self) -> None:
        if self.steps_per_epoch == 0:
            raise TrainingError(
                f"batch_size is {self.batch_size}, but there are only {self.num_items} samples to"
                " train on; lower batch_size, or set drop_last: false"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Batches, the last smaller one counted unless dropped."""
        whole, rest = divmod(self.num_items, self.batch_size)
        return whole + bool(rest and not self.drop_last)

    def size(self, index: int) -> int:
        """Samples in the batch of this index: batch_size, or what is left at the end."""
        return min(self.batch_size, self.num_items - index * self.batch_size)

    def batch(self, epoch: int, index: int) -> list[Sample]:
        """The global batch: the samples of all processes in one optimiser step."""
        order = _order(self.num_items, self.seed, epoch)
        first = index * self.batch_size
        return [
            Sample(int(order[place // self.repeats]), epoch, place % self.repeats)
            for place in range(first, first + self.size(index))
        ]


@lru_cache(maxsize=2)
def _order(num_items: int, seed: int, epoch: int) -> np.ndarray:
    return np.random.default_rng(derive_seed(seed, "order", epoch)).permutation(num_items)


def share(batch: list[Item], part: int, parts: int) -> list[Item]:
    """The part of a batch that one process computes at once.

    Each part takes samples from the front and their mirror images from the back. Mixup mixes sample
    i with sample n−1−i, so a part mixes exactly the pairs that the whole batch would.
    """
    size = len(batch)
    front = (size + 1) // 2
    first, last = front * part // parts, front * (part + 1) // parts
    return batch[first:last] + batch[max(front, size - last) : size - first]


@dataclass(frozen=True)
class Shares:
    """How a batch is divided over processes and, within a process, over accumulation."""

    rank: int = 0
    processes: int = 1
    accumulation: int = 1

    def of(self, batch: list[Item]) -> list[list[Item]]:
        """This process's parts, one per accumulated pass; a small batch may leave some empty."""
        parts = self.processes * self.accumulation
        first = self.rank * self.accumulation
        return [share(batch, part, parts) for part in range(first, first + self.accumulation)]


class StepBatches(Sampler[list[Sample]]):
    """The parts of one process from step `start` to `stop`, across epochs."""

    def __init__(
        self, plan: BatchPlan, shares: Shares, *, first_epoch: int, start: int, stop: int
    ) -> None:
        self.plan, self.shares, self.first_epoch = plan, shares, first_epoch
        self.start, self.stop = start, stop

    def __len__(self) -> int:
        return (self.stop - self.start) * self.shares.accumulation

    def __iter__(self) -> Iterator[list[Sample]]:
        for step in range(self.start, self.stop):
            epoch, index = divmod(step, self.plan.steps_per_epoch)
            batch = self.plan.batch(self.first_epoch + epoch, index)
            for part in self.shares.of(batch):
                # An empty part still takes the step, with a sample that does not count.
                yield part or batch[:1]


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

    One iterator for all epochs: workers stay alive, and a resumed run does not load skipped
    samples.
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


def worker_count(asked: int) -> int:
    """At most one process per core."""
    return min(asked, os.cpu_count() or 1)


def worker_context() -> ForkServerContext:
    """Fork from a server without threads or GPU; a plain fork copies locks that threads hold."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context
