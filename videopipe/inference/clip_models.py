"""Running a model on clips: on a CPU clip by clip, on a device in batches.

Both take clips one at a time and answer later, in order: `later = model.submit(clip)`, `later()`.
"""

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Barrier, local
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pretrained_2d.card import ModelCard
from videopipe.inference.scores import ClipOutput
from videopipe.inference.settings import Execution, Scoring

Later = Callable[[], ClipOutput]
LARGEST_AUTO_BATCH = 64
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


class ClipModel(Protocol):
    """A model that answers later."""

    clips_in_flight: int  # how many answers may wait before asking for the first

    def submit(self, clip: Tensor) -> Later:
        """Take a uint8 clip (channels, time, height, width); call the result for the answer."""

    def flush(self) -> None:
        """Start on what was submitted, although more would fit."""

    def close(self) -> None:
        """End threads; answers not asked for are lost."""


class Forward:
    """A network and its card: uint8 clips in, logits and perhaps embeddings out."""

    def __init__(self, network: nn.Module, card: ModelCard, scoring: Scoring) -> None:
        self.network, self.card, self.scoring = network, card, scoring

    def __call__(self, clips: Tensor) -> tuple[Tensor, Tensor | None]:
        """(batch, channels, time, height, width) -> (batch, classes), (batch, features) or None.

        A network for images sees every frame, and its answers are averaged over the clip.
        """
        batch = clips.shape[0]
        images = self.card.ndim == 2
        signal = clips.transpose(1, 2).flatten(0, 1) if images else clips
        signal = self.card.preprocessing.normalize(signal)  # (batch [· time], channels, *axes)
        with torch.inference_mode(), self._autocast(clips.device.type):
            logits, embeddings = self._logits_and_embeddings(signal)
        if images:
            logits = logits.view(batch, -1, logits.shape[-1]).mean(1)
        if images and embeddings is not None:
            embeddings = embeddings.view(batch, -1, embeddings.shape[-1]).mean(1)
        return logits, embeddings

    def _autocast(self, device: str) -> AbstractContextManager[object]:
        dtype = AUTOCAST.get(self.scoring.precision)
        return torch.autocast(device, dtype=dtype, enabled=dtype is not None)

    def _logits_and_embeddings(self, signal: Tensor) -> tuple[Tensor, Tensor | None]:
        """One pass for both where the classifier sees plain vectors, else one for each."""
        if not self.scoring.embeddings:
            return self.network(signal).float(), None
        network: Any = self.network
        seen: list[Tensor] = []
        with network.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])):
            logits = network(signal)
        one_vector_each = len(seen) == 1 and seen[0].ndim == 2 and len(seen[0]) == len(signal)
        embeddings = seen[0] if one_vector_each else network.embed(signal)
        return logits.float(), embeddings.float()


class ThreadedModel:
    """On a CPU: several clips at a time, each alone and on one thread of its own.

    A clip's arithmetic then depends on the clip only, not on its neighbours, on the number of
    threads or on who else is computing: the same bits every time. It is no slower than batches.
    """

    def __init__(self, forward: Forward, threads: int) -> None:
        self.clips_in_flight = 2 * threads
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
        self._own.forward = self._forwards.get()
        self._started.wait()

    def submit(self, clip: Tensor) -> Later:
        """Begin as soon as a thread is free."""
        answer: Future[ClipOutput] = self._threads.submit(self._answer, clip)
        return answer.result

    def _answer(self, clip: Tensor) -> ClipOutput:
        logits, embeddings = self._own.forward(clip[None])
        return ClipOutput(logits[0].numpy(), None if embeddings is None else embeddings[0].numpy())

    def flush(self) -> None:
        """Nothing waits for more."""

    def close(self) -> None:
        """End the threads when they have done the clip they are at."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _own_modules(network: nn.Module) -> nn.Module:
    """A copy of the modules around the same parameters and buffers."""
    tensors = (*network.parameters(), *network.buffers())
    return copy.deepcopy(network, {id(tensor): tensor for tensor in tensors})


class _Batch:
    """The outputs of one batch, brought to the host when the first of them is asked for."""

    def __init__(self, logits: Tensor, embeddings: Tensor | None) -> None:
        self._on_device: tuple[Tensor, Tensor | None] | None = (logits, embeddings)
        self._outputs: list[ClipOutput] = []

    def output(self, place: int) -> ClipOutput:
        if self._on_device is not None:
            logits, embeddings = self._on_device
            rows = logits.cpu().numpy()
            vectors = [None] * len(rows) if embeddings is None else embeddings.cpu().numpy()
            self._outputs = [ClipOutput(*pair) for pair in zip(rows, vectors, strict=True)]
            self._on_device = None
        return self._outputs[place]


class _Answer:
    """A clip's place in a batch that is computed, or will be."""

    batch: _Batch | None = None
    place = 0


class BatchedModel:
    """On a device: full batches across videos, copied while the device computes.

    Out of memory halves the batch, for good, and the clips are tried again.
    """

    def __init__(self, forward: Forward, device: torch.device, execution: Execution) -> None:
        self.batch_size = execution.batch_size or LARGEST_AUTO_BATCH
        self.clips_in_flight = 2 * self.batch_size
        self.device = device
        network = forward.network.to(device)
        if device.type == "cuda" and forward.card.ndim == 2:
            network = network.to(memory_format=torch.channels_last)
        if execution.compile:
            network = torch.compile(network)  # type: ignore[assignment]
        self.forward = Forward(network, forward.card, forward.scoring)
        self._waiting: list[tuple[Tensor, _Answer]] = []

    def submit(self, clip: Tensor) -> Later:
        """Wait for a full batch, then start it."""
        answer = _Answer()
        self._waiting.append((clip, answer))
        if len(self._waiting) >= self.batch_size:
            self.flush()

        def later() -> ClipOutput:
            if answer.batch is None:
                self.flush()
            assert answer.batch is not None  # flush() has filled it
            return answer.batch.output(answer.place)

        return later

    def flush(self) -> None:
        """Compute what is waiting."""
        waiting, self._waiting = self._waiting, []
        while waiting:
            batch, rest = waiting[: self.batch_size], waiting[self.batch_size :]
            try:
                computed = self._compute([clip for clip, _ in batch])
            except torch.OutOfMemoryError:
                if self.batch_size == 1:
                    raise
                self.batch_size = max(1, min(len(batch), self.batch_size) // 2)
                torch.accelerator.memory.empty_cache()
                continue
            for place, (_, answer) in enumerate(batch):
                answer.batch, answer.place = computed, place
            waiting = rest

    def _compute(self, clips: list[Tensor]) -> _Batch:
        """Queue one batch; the results stay on the device until they are asked for."""
        pinned = self.device.type == "cuda"
        together = torch.empty((len(clips), *clips[0].shape), dtype=torch.uint8, pin_memory=pinned)
        torch.stack(clips, out=together)  # (batch, channels, time, height, width)
        return _Batch(*self.forward(together.to(self.device, non_blocking=pinned)))

    def close(self) -> None:
        """Nothing runs between batches."""


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
