"""Run a model on an accelerator, in batches across videos."""

import time
from threading import RLock

import torch
from torch import Tensor

from videopipe.scoring.clip_classifier import ClipClassifier
from videopipe.scoring.scores import ClipOutput
from videopipe.scoring.settings import Execution

LARGEST_AUTO_BATCH = 64
LONGEST_WAIT_SECONDS = 0.5  # for a batch to fill up, and for one to be computed


class _Batch:
    """The outputs of one batch, copied to the host when the first of them is requested."""

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


class BatchedOutput:
    """The position of a clip in a batch that is or will be computed."""

    def __init__(self, model: "BatchedModel") -> None:
        self.model = model
        self.batch: _Batch | None = None
        self.place = 0

    def done(self) -> bool:
        """Assumes that a batch is computed some time after its start; the device is not queried."""
        return self.batch is not None and time.monotonic() - self.batch.begun > LONGEST_WAIT_SECONDS

    def result(self) -> ClipOutput:
        """The output; starts a batch that is not full yet."""
        with self.model.lock:
            if self.batch is None:
                self.model.flush()
            assert self.batch is not None  # flush() has filled it
            return self.batch.output(self.place)


class BatchedModel:
    """Full batches across videos, copied while the accelerator computes.

    When memory runs out, the batch size is halved from then on and the clips are computed again.
    """

    def __init__(self, forward: ClipClassifier, device: torch.device, execution: Execution) -> None:
        self.batch_size = execution.batch_size or LARGEST_AUTO_BATCH
        self.clips_in_flight = 2 * self.batch_size
        self.device = device
        network = forward.network.to(device)
        if device.type == "cuda" and forward.card.ndim == 2:
            network = network.to(memory_format=torch.channels_last)
        if execution.compile:
            network = torch.compile(network)  # type: ignore[assignment]
        self.forward = ClipClassifier(network, forward.card, forward.scoring)
        self._waiting: list[tuple[Tensor, BatchedOutput]] = []
        self._waiting_since = 0.0
        self.lock = RLock()  # several threads share batches

    def submit(self, clip: Tensor) -> BatchedOutput:
        """Add a clip; a full batch is started."""
        output = BatchedOutput(self)
        with self.lock:
            if not self._waiting:
                self._waiting_since = time.monotonic()
            self._waiting.append((clip, output))
            if len(self._waiting) >= self.batch_size:
                self.flush()
        return output

    def flush_overdue(self) -> None:
        """Start a batch that has waited too long for more clips, as when decoders are slow."""
        with self.lock:
            if self._waiting and time.monotonic() - self._waiting_since > LONGEST_WAIT_SECONDS:
                self.flush()

    def flush(self) -> None:
        """Compute all waiting clips."""
        with self.lock:
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
                for place, (_, output) in enumerate(batch):
                    output.place, output.batch = place, computed
                waiting = rest

    def _compute(self, clips: list[Tensor]) -> _Batch:
        """Queue one batch; the outputs stay on the device until they are requested."""
        pinned = self.device.type == "cuda"
        together = torch.empty((len(clips), *clips[0].shape), dtype=torch.uint8, pin_memory=pinned)
        torch.stack(clips, out=together)  # (batch, channels, time, height, width)
        return _Batch(*self.forward(together.to(self.device, non_blocking=pinned)))

    def close(self) -> None:
        """Do nothing: no thread or process is running."""
