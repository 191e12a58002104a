"""The scores of one video, and how they are averaged over its clips."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from videopipe.dataset.lists.video_range import VideoRange
from videopipe.system.status import VideoStatus

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ClipOutput:
    """The output of the model for one clip."""

    logits: Floats  # (classes,)
    embedding: Floats | None = None  # (features,)


@dataclass(frozen=True)
class VideoScores:
    """The scores of one video, or of one window of it, or why there are none.

    A video with the status "ok" may have a `reason` too: a problem of the file.
    """

    source: VideoRange
    index: int  # position among the videos given
    status: VideoStatus = "ok"
    reason: str | None = None
    content_id: str | None = None
    duration_seconds: float | None = None
    start_seconds: float | None = None
    end_seconds: float | None = None
    num_clips: int = 0
    logits: Floats | None = None  # (classes,), mean over clips
    probabilities: Floats | None = None  # (classes,)
    embedding: Floats | None = None  # (features,), mean over clips
    last: bool = True  # the last result of this video
    shot: int | None = None  # of a window: the number of the cuts before it


class ClipAverage:
    """The mean over clips, in float64 and in the order of the clips."""

    def __init__(
        self, average: Literal["logits", "probabilities"], *, multi_label: bool = False
    ) -> None:
        self.average = average
        self._activation = sigmoid if multi_label else softmax
        self.num_clips = 0
        self._logits: NDArray[np.float64] | None = None
        self._probabilities: NDArray[np.float64] | None = None
        self._embedding: NDArray[np.float64] | None = None

    def add(self, output: ClipOutput) -> None:
        """Add one clip."""
        logits = output.logits.astype(np.float64)
        embedding = None if output.embedding is None else output.embedding.astype(np.float64)
        self._logits = _plus(self._logits, logits)
        self._probabilities = _plus(self._probabilities, self._activation(logits))
        if embedding is not None:
            self._embedding = _plus(self._embedding, embedding)
        self.num_clips += 1

    @property
    def finite(self) -> bool:
        """Whether all logits are finite."""
        return self._logits is None or bool(np.isfinite(self._logits).all())

    def means(self) -> dict[str, Floats]:
        """`logits`, `probabilities` and `embedding` as `VideoScores` has them; {} without clips."""
        if self._logits is None or self._probabilities is None:
            return {}
        logits = self._logits / self.num_clips
        by_logits = self.average == "logits"
        probabilities = (
            self._activation(logits) if by_logits else self._probabilities / self.num_clips
        )
        means = {"logits": logits, "probabilities": probabilities}
        if self._embedding is not None:
            means["embedding"] = self._embedding / self.num_clips
        return {name: mean.astype(np.float32) for name, mean in means.items()}


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """(classes,) -> (classes,) that add up to one."""
    exponentials: NDArray[np.float64] = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """(classes,) -> (classes,), each within [0, 1] on its own."""
    probabilities: NDArray[np.float64] = 0.5 * (1 + np.tanh(0.5 * logits))  # without overflow
    return probabilities


def _plus(total: NDArray[np.float64] | None, value: NDArray[np.float64]) -> NDArray[np.float64]:
    return value if total is None else total + value
