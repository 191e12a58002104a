"""Collect the outputs for the clips of one video: its mean, its windows, or why it failed."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from videopipe.scoring.clips import ClipTask, DecodedClip, VideoFacts
from videopipe.scoring.scores import ClipAverage, ClipOutput, VideoScores
from videopipe.scoring.settings import Scoring
from videopipe.system.pool import Failed
from videopipe.system.status import VideoStatus
from videopipe.video.sources.addresses import is_plain
from videopipe.video.sources.local_copy import is_gone

NOT_FINITE = "the output of the model is not finite (NaN or infinity)"
NO_FRAME = "no frame was found where the video should have some"


@dataclass(frozen=True)
class _Failure:
    kind: VideoStatus
    reason: str


class VideoAccumulator:
    """One video that is being scored; takes outputs in the order of the clips."""

    def __init__(self, task: ClipTask, scoring: Scoring, *, multi_label: bool = False) -> None:
        self.task, self.scoring, self._multi_label = task, scoring, multi_label
        self.facts = VideoFacts()
        self._average = ClipAverage(scoring.average, multi_label=multi_label)
        self._start_seconds: float | None = None
        self._end_seconds: float | None = None
        self._shot: int | None = None
        self._window: VideoScores | None = (
            None  # not yielded until it is known whether it is the last
        )

    def take(self, clip: DecodedClip, output: ClipOutput) -> Iterator[VideoScores]:
        """Add one output; yields a window that is complete and not the last."""
        if self._start_seconds is None:
            self._start_seconds = clip.start_seconds
        self._end_seconds = clip.end_seconds
        self._shot = clip.shot if self.scoring.windows else None
        self._average.add(output)
        if self.scoring.windows and clip.completes_window:
            if self._window is not None:
                yield self._window
            self._window = replace(self._mean(), last=False)
            self._restart()

    def end(self, failed: Failed[ClipTask] | None) -> Iterator[VideoScores]:
        """The last result of the video; before it, the window that is complete."""
        failure = None if failed is None else _Failure(failed.kind, failed.reason)
        if self.facts.too_long is not None:
            failure = _Failure("too_long", self.facts.too_long)
        if self._window is None:
            yield self._failure(failure) if self._is_lost(failure) else self._mean(failure)
        elif failure is None:
            yield replace(
                self._window, last=True, reason=self._window.reason or self.facts.problems
            )
        else:
            yield self._window
            self._restart()  # clips of a window that was not completed
            yield replace(self._failure(failure), start_seconds=self._window.end_seconds)

    def _restart(self) -> None:
        self._average = ClipAverage(self.scoring.average, multi_label=self._multi_label)
        self._start_seconds = None

    def _is_lost(self, failure: _Failure | None) -> bool:
        """Whether there is no mean. After a timeout or crash the clips are not reproducible."""
        if self._average.num_clips == 0:
            return True
        return failure is not None and (failure.kind != "error" or self.scoring.windows)

    def _mean(self, failure: _Failure | None = None) -> VideoScores:
        status: VideoStatus = "ok" if failure is None else "partial"
        found = {
            "start_seconds": self._start_seconds,
            "end_seconds": self._end_seconds,
            "num_clips": self._average.num_clips,
            "shot": self._shot,
        }
        if not self._average.finite:
            return self._result("error", NOT_FINITE, **found)
        reason = self.facts.problems if failure is None else failure.reason
        return self._result(status, reason, **found, **self._average.means())

    def _failure(self, failure: _Failure | None) -> VideoScores:
        if failure is None:
            return self._result("error", NO_FRAME)
        path = self.task.source.path
        gone = not os.path.lexists(path) if is_plain(path) else is_gone(failure.reason)
        missing = failure.kind == "error" and gone
        return self._result("missing" if missing else failure.kind, failure.reason)

    def _result(self, status: VideoStatus, reason: str | None, **found: Any) -> VideoScores:
        return VideoScores(
            source=self.task.source,
            index=self.task.index,
            status=status,
            reason=reason,
            content_id=self.facts.content_id,
            duration_seconds=self.facts.duration_seconds,
            **found,
        )
