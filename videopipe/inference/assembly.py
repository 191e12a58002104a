"""Putting the answers for one video together: its mean, its windows, or what went wrong."""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from videopipe.data.pool import Failed
from videopipe.inference.clips import ClipTask, DecodedClip, VideoFacts
from videopipe.inference.scores import ClipAverage, ClipOutput, Status, VideoScores
from videopipe.inference.settings import Scoring

NOT_FINITE = "the model's answer is not finite (NaN or infinity)"


class VideoAssembly:
    """One video on its way: takes answers in the order of the clips."""

    def __init__(self, task: ClipTask, scoring: Scoring) -> None:
        self.task, self.scoring = task, scoring
        self.facts = VideoFacts()
        self._average = ClipAverage(scoring.average)
        self._start_seconds: float | None = None
        self._end_seconds: float | None = None
        self._window: VideoScores | None = None  # kept back until it is known to be the last

    def take(self, clip: DecodedClip, output: ClipOutput) -> Iterator[VideoScores]:
        """Count one more answer; gives a window that is complete and not the last."""
        if self._start_seconds is None:
            self._start_seconds = clip.start_seconds
        self._end_seconds = clip.end_seconds
        self._average.add(output)
        if self.scoring.windows and clip.completes_window:
            if self._window is not None:
                yield self._window
            self._window = replace(self._mean(), last=False)
            self._begin_again()

    def end(self, failure: Failed[ClipTask] | None) -> Iterator[VideoScores]:
        """The last result of the video."""
        if self._window is None:
            yield self._failure(failure) if self._is_lost(failure) else self._mean(failure)
        elif failure is None:
            yield replace(
                self._window, last=True, reason=self._window.reason or self.facts.problems
            )
        else:
            yield self._window
            self._begin_again()  # clips of a window that was not completed
            yield replace(self._failure(failure), start_seconds=self._window.end_seconds)

    def _begin_again(self) -> None:
        self._average = ClipAverage(self.scoring.average)
        self._start_seconds = None

    def _is_lost(self, failure: Failed[ClipTask] | None) -> bool:
        """Whether there is no mean to give. How far a hanging file came is chance, so no mean."""
        if self._average.num_clips == 0:
            return True
        return failure is not None and (failure.kind != "error" or self.scoring.windows)

    def _mean(self, failure: Failed[ClipTask] | None = None) -> VideoScores:
        status: Status = "ok" if failure is None else "partial"
        found = {
            "start_seconds": self._start_seconds,
            "end_seconds": self._end_seconds,
            "num_clips": self._average.num_clips,
        }
        if not self._average.finite:
            return self._result("error", NOT_FINITE, **found)
        reason = self.facts.problems if failure is None else failure.reason
        return self._result(status, reason, **found, **self._average.means())

    def _failure(self, failure: Failed[ClipTask] | None) -> VideoScores:
        if failure is None:
            return self._result("error", "no frame was found where the video should have some")
        gone = failure.kind == "error" and not os.path.lexists(self.task.source.path)
        return self._result("missing" if gone else failure.kind, failure.reason)

    def _result(self, status: Status, reason: str | None, **found: Any) -> VideoScores:
        return VideoScores(
            source=self.task.source,
            index=self.task.index,
            status=status,
            reason=reason,
            content_id=self.facts.content_id,
            duration_seconds=self.facts.duration_seconds,
            **found,
        )
