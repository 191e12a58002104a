"""Running a model on a device, in batches across videos."""

import time

import torch
from torch import Tensor

from videopipe.inference.forward import Forward
from videopipe.inference.scores import ClipOutput
from videopipe.inference.settings import Execution

LARGEST_AUTO_BATCH = 64
PATIENCE_SECONDS = 0.5  # for a batch to fill up, and for one to be computed


class _Batch:
    """The outputs of one batch, brought to the host when the first of them is asked for."""

    def __init__(self, logits: Tensor, embeddings: Tensor | None) -> None:
        self.begun = time.monotonic()
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


class BatchedAnswer:
    """A clip's place in a batch that is computed, or will be."""

    def __init__(self, model: "BatchedModel") -> None:
        self.model = model
        self.batch: _Batch | None = None
        self.place = 0

    def done(self) -> bool:
        """The device is not asked: a batch that is some time back will be through."""
        return self.batch is not None and time.monotonic() - self.batch.begun > PATIENCE_SECONDS

    def result(self) -> ClipOutput:
        """The answer; a batch that is not full yet is started for it."""
        if self.batch is None:
            self.model.flush()
        assert self.batch is not None  # flush() has filled it
        return self.batch.output(self.place)


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
        self._waiting: list[tuple[Tensor, BatchedAnswer]] = []
        self._waiting_since = 0.0

    def submit(self, clip: Tensor) -> BatchedAnswer:
        """Wait for a full batch, then start it."""
        if not self._waiting:
            self._waiting_since = time.monotonic()
        answer = BatchedAnswer(self)
        self._waiting.append((clip, answer))
        if len(self._waiting) >= self.batch_size:
            self.flush()
        return answer

    def hurry(self) -> None:
        """Where decoders are slow, the device had better not wait for a full batch."""
        if self._waiting and time.monotonic() - self._waiting_since > PATIENCE_SECONDS:
            self.flush()

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
