"""Running a model on clips: on a CPU clip by clip, on a device in batches.

Both take clips one at a time and answer later: `answer = model.submit(clip)`, `answer.result()`.
"""

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Barrier, local
from typing import Protocol

import torch
from torch import Tensor, nn

from pretrained_2d.card import ModelCard
from videopipe.inference.batched_model import BatchedModel
from videopipe.inference.forward import Forward
from videopipe.inference.scores import ClipOutput
from videopipe.inference.settings import Execution, Scoring


class Answer(Protocol):
    """What the model says of a clip, sooner or later."""

    def done(self) -> bool:
        """Whether asking for it would not mean waiting."""

    def result(self) -> ClipOutput:
        """The answer, waiting for it."""


class ClipModel(Protocol):
    """A model that answers later."""

    clips_in_flight: int  # how many answers may wait before asking for the first

    def submit(self, clip: Tensor) -> Answer:
        """Take a uint8 clip (channels, time, height, width)."""

    def hurry(self) -> None:
        """Start on what has waited long for company; called whenever anything happens."""

    def close(self) -> None:
        """End threads; answers not asked for are lost."""


class ThreadedModel:
    """On a CPU: several clips at a time, each alone and on one thread of its own.

    A clip's arithmetic then depends on the clip only, not on its neighbours, on the number of
    threads or on who else is computing: the same bits every time. It is no slower than batches.
    """

    def __init__(self, forward: Forward, threads: int) -> None:
        self.clips_in_flight = 2 * threads + 4  # more than needed: clips do not come evenly
        # Modules may keep notes while they compute, so each thread has its own, around the same
        # weights.
        self._forwards = SimpleQueue[Forward]()
        for _ in range(threads):
            self._forwards.put(
                Forward(_own_modules(forward.network), forward.card, forward.scoring)
            )
        self._started = Barrier(threads + 1)
        self._own = local()
        before = torch.get_num_threads()
        self._threads = ThreadPoolExecutor(threads, "model", initializer=self._start)
        for _ in range(threads):
            self._threads.submit(int)  # begins a thread each, since none is idle before the barrier
        self._started.wait()
        torch.set_num_threads(before)  # the threads keep their one; everybody else is as before

    def _start(self) -> None:
        torch.get_num_threads()  # a thread's first question sets it to the common number
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)  # as in training; of this thread alone
        self._own.forward = self._forwards.get()
        self._started.wait()

    def submit(self, clip: Tensor) -> Future[ClipOutput]:
        """Begin as soon as a thread is free."""
        return self._threads.submit(self._answer, clip)

    def _answer(self, clip: Tensor) -> ClipOutput:
        logits, embeddings = self._own.forward(clip[None])
        return ClipOutput(logits[0].numpy(), None if embeddings is None else embeddings[0].numpy())

    def hurry(self) -> None:
        """Nothing waits for company."""

    def close(self) -> None:
        """End the threads when they have done the clip they are at."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _own_modules(network: nn.Module) -> nn.Module:
    """A copy of the modules around the same parameters and buffers."""
    tensors = (*network.parameters(), *network.buffers())
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})


def make_clip_model(
    network: nn.Module, card: ModelCard, scoring: Scoring, execution: Execution
) -> ClipModel:
    """The model on the device that `execution` names."""
    device = choose_device(execution.device)
    forward = Forward(network.eval(), card, scoring)
    if device.type == "cpu":
        return ThreadedModel(forward, execution.num_threads)
    return BatchedModel(forward, device, execution)


def choose_device(name: str) -> torch.device:
    """ "auto" is the accelerator of this process, or the CPU."""
    if name != "auto":
        return torch.device(name)
    found = torch.accelerator.current_accelerator(check_available=True)
    return found or torch.device("cpu")
