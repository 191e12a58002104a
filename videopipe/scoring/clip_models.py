"""Run a model on clips: on a CPU clip by clip, on an accelerator in batches.

Both take one clip at a time and return a future: `output = model.submit(clip)`, `output.result()`.
"""

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Barrier, local
from typing import Protocol

import torch
from torch import Tensor, nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.errors import ConfigError, VideopipeError, first_line
from videopipe.scoring.batched_model import BatchedModel
from videopipe.scoring.clip_classifier import ClipClassifier
from videopipe.scoring.scores import ClipOutput
from videopipe.scoring.settings import Execution, Scoring


class FutureOutput(Protocol):
    """The output for a clip, which may not be computed yet."""

    def done(self) -> bool:
        """Whether `result` returns without waiting."""

    def result(self) -> ClipOutput:
        """The output; waits until it is computed."""


class ClipModel(Protocol):
    """A model that computes clips in the background."""

    clips_in_flight: int  # outputs that may be pending before the first is requested

    def submit(self, clip: Tensor) -> FutureOutput:
        """Take a uint8 clip (channels, time, height, width)."""

    def flush_overdue(self) -> None:
        """Start a batch that has waited too long for more clips; called after every event."""

    def close(self) -> None:
        """End the threads; pending outputs are lost."""


class ThreadedModel:
    """On a CPU: several clips at a time, each in one thread.

    The arithmetic of a clip then does not depend on other clips or on the number of threads, so its
    scores are reproducible. This is not slower than batches.
    """

    def __init__(self, forward: ClipClassifier, threads: int) -> None:
        self.clips_in_flight = 2 * threads + 4  # more than needed: clips arrive unevenly
        # Modules may store state in forward, so each thread has its own, with the same weights.
        self._forwards = SimpleQueue[ClipClassifier]()
        for _ in range(threads):
            self._forwards.put(
                ClipClassifier(_own_modules(forward.network), forward.card, forward.scoring)
            )
        self._started = Barrier(threads + 1)
        self._own = local()
        before = torch.get_num_threads()
        self._threads = ThreadPoolExecutor(threads, "model", initializer=self._start)
        for _ in range(threads):
            self._threads.submit(int)  # each starts a thread: all wait at the barrier
        self._started.wait()
        torch.set_num_threads(before)  # for other threads; those above keep 1

    def _start(self) -> None:
        torch.get_num_threads()  # the first call in a thread sets it to the global number
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)  # as in training; for this thread only
        self._own.forward = self._forwards.get()
        self._started.wait()

    def submit(self, clip: Tensor) -> Future[ClipOutput]:
        """Compute as soon as a thread is free."""
        return self._threads.submit(self._compute, clip)

    def _compute(self, clip: Tensor) -> ClipOutput:
        logits, embeddings = self._own.forward(clip[None])
        return ClipOutput(logits[0].numpy(), None if embeddings is None else embeddings[0].numpy())

    def flush_overdue(self) -> None:
        """Do nothing: there are no batches."""

    def close(self) -> None:
        """End the threads after their current clips."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _own_modules(network: nn.Module) -> nn.Module:
    """A copy of the modules with the same parameters and buffers."""
    tensors = (*network.parameters(), *network.buffers())
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})


def make_clip_model(
    network: nn.Module, card: ModelCard, scoring: Scoring, execution: Execution
) -> ClipModel:
    """The model on the device that `execution` names."""
    device = choose_device(execution.device)
    forward = ClipClassifier(network.eval(), card, scoring)
    if device.type == "cpu":
        return ThreadedModel(forward, execution.num_threads)
    return BatchedModel(forward, device, execution)


def choose_device(name: str) -> torch.device:
    """The device called `name`, after a computation on it; "auto" is the accelerator or the CPU."""
    if name == "auto":
        return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(
            [f"device is {name!r}; expected auto, cpu, cuda, cuda:1, mps or another of torch's"]
        ) from None
    try:
        torch.zeros(1, device=device).add(1).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise VideopipeError(
            f"device {name!r} does not work here: {first_line(error)}\n"
            "Use device auto or cpu, or repair the driver; `videopipe doctor` shows what works"
        ) from None
    return device
