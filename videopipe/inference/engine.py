"""From videos to scores: decoding processes, then clips of all videos, then the model.

Clips go to the model in the order in which the decoders give them, whatever video they belong to,
so one slow file never keeps the others waiting. A video's clips come in order, and their answers
are taken in the order in which they were asked, so a mean does not depend on what else went on.
"""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from torch import nn

from pretrained_2d.card import ModelCard
from videopipe.data.pool import Event, Failed, Finished, WorkerPool
from videopipe.inference.assembly import VideoAssembly
from videopipe.inference.clip_models import Answer, make_clip_model
from videopipe.inference.clips import ClipPlan, ClipTask, DecodedClip, VideoFacts, decode_clips
from videopipe.inference.manifests import Source
from videopipe.inference.scores import VideoScores
from videopipe.inference.settings import Execution, Scoring


class Record(Protocol):
    """A video of a manifest, or anything else that has these."""

    @property
    def path(self) -> Path | str:
        """Where it is."""

    @property
    def start_seconds(self) -> float | None:
        """Where the range begins; None: at the beginning."""

    @property
    def end_seconds(self) -> float | None:
        """Where the range ends; None: at the end."""


Video = Source | Record | str | os.PathLike[str]
PAYLOADS_AHEAD = 6  # two or three clips and what is said of a video: a slow clip stops nobody
Job = tuple[int, Source, int]  # index, source, windows that are done already


@dataclass
class Times:
    """Where the consumer's time goes."""

    waiting_for_decoders_seconds: float = 0.0
    waiting_for_model_seconds: float = 0.0


@dataclass(frozen=True)
class _Step:
    """What happens to a video in its turn: facts or an answer are taken, or it ends."""

    assembly: VideoAssembly
    clip: DecodedClip | None = None
    answer: Answer | None = None
    facts: VideoFacts | None = None
    failure: Failed[ClipTask] | None = None

    def done(self) -> bool:
        """Whether it can happen without waiting."""
        return self.answer is None or self.answer.done()


def score_videos(
    network: nn.Module,
    card: ModelCard,
    videos: Iterable[Video],
    *,
    scoring: Scoring | None = None,
    execution: Execution | None = None,
) -> Iterator[VideoScores]:
    """Scores of every video, as they get ready; `index` is the place among `videos`.

    Every video gives one result, or one per window, whatever happens to it.
    """
    with Engine(network, card, scoring or Scoring(), execution or Execution()) as engine:
        yield from engine.score(videos)


class Engine:
    """A model at work, with the processes that decode for it; both stay between calls."""

    def __init__(
        self, network: nn.Module, card: ModelCard, scoring: Scoring, execution: Execution
    ) -> None:
        self.scoring = scoring
        self.plan = ClipPlan.of(card, scoring)
        self.times = Times()
        self._model = make_clip_model(network, card, scoring, execution)
        self._pool: WorkerPool[ClipTask] = WorkerPool(
            decode_clips,
            workers=execution.num_workers,
            timeout_seconds=execution.timeout_seconds,
            memory_limit_bytes=execution.memory_limit_bytes,
            payloads_ahead=PAYLOADS_AHEAD,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes and threads."""
        self._pool.close()
        self._model.close()

    def score(self, videos: Iterable[Video]) -> Iterator[VideoScores]:
        """Scores of every video, as they get ready."""
        return self.run((index, as_source(video), 0) for index, video in enumerate(videos))

    def run(self, jobs: Iterable[Job]) -> Iterator[VideoScores]:
        """As `score`; a job is drawn only when there is a decoder to take it."""
        tasks = (ClipTask(index, source, self.plan, done) for index, source, done in jobs)
        steps: deque[_Step] = deque()
        underway: dict[int, VideoAssembly] = {}
        for event in self._timed(self._pool.run(tasks)):
            steps.extend(self._steps(event, underway))
            self._model.hurry()
            while steps and (steps[0].done() or len(steps) > self._model.clips_in_flight):
                yield from self._settle(steps.popleft())
        while steps:
            yield from self._settle(steps.popleft())

    def _timed(self, events: Iterator[Any]) -> Iterator[Any]:
        while True:
            before = time.perf_counter()
            event = next(events, None)
            self.times.waiting_for_decoders_seconds += time.perf_counter() - before
            if event is None:
                return
            yield event

    def _steps(
        self,
        event: Event[ClipTask] | Finished[ClipTask] | Failed[ClipTask],
        underway: dict[int, VideoAssembly],
    ) -> Iterator[_Step]:
        """What an event asks for; clips start on their way through the model here."""
        task = event.task
        assembly = underway.get(task.index)
        if assembly is None:
            assembly = underway[task.index] = VideoAssembly(task, self.scoring)
        if not isinstance(event, Event):
            del underway[task.index]
            yield _Step(assembly, failure=event if isinstance(event, Failed) else None)
        elif isinstance(event.payload, VideoFacts):
            yield _Step(assembly, facts=event.payload)
        else:
            clip: DecodedClip = event.payload
            answer = self._model.submit(clip.frames)
            yield _Step(assembly, clip.without_frames(), answer)

    def _settle(self, step: _Step) -> Iterator[VideoScores]:
        if step.facts is not None:
            step.assembly.facts = step.facts
            return
        if step.clip is None or step.answer is None:
            yield from step.assembly.end(step.failure)
            return
        before = time.perf_counter()
        output = step.answer.result()
        self.times.waiting_for_model_seconds += time.perf_counter() - before
        yield from step.assembly.take(step.clip, output)


def as_source(video: Video) -> Source:
    """Any way of naming a video."""
    if isinstance(video, Source):
        return video
    if isinstance(video, str | os.PathLike):
        return Source(os.fspath(video))
    return Source(os.fspath(video.path), video.start_seconds, video.end_seconds)
