"""Score videos: decoding processes deliver clips of all videos to one model.

Clips reach the model in the order in which they are decoded, so a slow file does not delay the
others. The clips of one video stay in order, and so do their outputs: a mean does not depend on the
other videos.
"""

import os
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, Self

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DecodeError, VideopipeError
from videopipe.models import check_takes_videos
from videopipe.scoring.clip_models import FutureOutput, choose_device, make_clip_model
from videopipe.scoring.clips import ClipPlan, ClipTask, DecodedClip, VideoFacts, decode_clips
from videopipe.scoring.scores import VideoScores
from videopipe.scoring.settings import Execution, Scoring
from videopipe.scoring.video_accumulator import VideoAccumulator
from videopipe.system.pool import Event, Failed, Finished, WorkerPool
from videopipe.video.sources.own_objects import OwnObjects
from videopipe.video.video import load_backend


class Record(Protocol):
    """A video of a manifest, or anything else with these attributes."""

    @property
    def path(self) -> Path | str:
        """Where it is."""

    @property
    def start_seconds(self) -> float | None:
        """Where the range begins; None: at the beginning."""

    @property
    def end_seconds(self) -> float | None:
        """Where the range ends; None: at the end."""


Video = VideoRange | Record | str | os.PathLike[str]
PAYLOADS_AHEAD = 6  # buffered per worker, so that one slow clip does not stall the others
MOST_IDLE_POOLS = 4  # kept for later calls; more are ended when their call ends


@dataclass
class Times:
    """Seconds that the consumer of the scores has waited for decoders and for the model."""

    waiting_for_decoders_seconds: float = 0.0
    waiting_for_model_seconds: float = 0.0


@dataclass(frozen=True)
class _Step:
    """The next thing for a video: new facts, an output, or its end."""

    accumulator: VideoAccumulator
    clip: DecodedClip | None = None
    output: FutureOutput | None = None
    facts: VideoFacts | None = None
    failure: Failed[ClipTask] | None = None

    def done(self) -> bool:
        """Whether it needs no waiting."""
        return self.output is None or self.output.done()


class Engine:
    """A model, and the processes that decode for it; both are kept between calls.

    Several threads may call `score` and `run` at the same time: they share the model, and each call
    has decoding processes of its own, which the next call reuses.
    """

    def __init__(
        self, network: nn.Module, card: ModelCard, scoring: Scoring, execution: Execution
    ) -> None:
        check_execution(scoring, execution)
        check_takes_videos(card)
        self.scoring = scoring
        self._multi_label = card.multi_label
        self.plan = ClipPlan.of(card, scoring)
        self.times = Times()
        self._model = make_clip_model(network, card, scoring, execution)
        self._execution = execution
        self._lock = Lock()  # of the fields below
        self._idle_pools: list[WorkerPool[ClipTask]] = []
        self._calls = 0  # that are running
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the idle processes and refuse new calls. Calls that are running may finish."""
        with self._lock:
            self._closed = True
            pools, self._idle_pools = self._idle_pools, []
            last = self._calls == 0
        for pool in pools:
            pool.close()
        if last:
            self._model.close()

    @contextmanager
    def _pool(self) -> Iterator[WorkerPool[ClipTask]]:
        """A pool of decoding processes for one call."""
        with self._lock:
            if self._closed:
                raise VideopipeError("this predictor is closed; make another one")
            self._calls += 1
            pool = self._idle_pools.pop() if self._idle_pools else self._new_pool()
        try:
            yield pool
        finally:
            with self._lock:
                self._calls -= 1
                keep = not self._closed and len(self._idle_pools) < MOST_IDLE_POOLS
                if keep:
                    self._idle_pools.append(pool)
                last = self._closed and self._calls == 0
            if not keep:
                pool.close()
            if last:
                self._model.close()

    def _new_pool(self) -> WorkerPool[ClipTask]:
        return WorkerPool(
            decode_clips,
            workers=self._execution.num_workers,
            timeout_seconds=self._execution.timeout_seconds,
            memory_limit_bytes=self._execution.memory_limit_bytes,
            payloads_ahead=PAYLOADS_AHEAD,
        )

    def score(self, videos: Iterable[Video]) -> Iterator[VideoScores]:
        """Scores of every video, as they get ready."""
        return self.run((index, as_range(video), 0) for index, video in enumerate(videos))

    def run(self, videos: Iterable[tuple[int, VideoRange, int]]) -> Iterator[VideoScores]:
        """As `score`, of (index, video, number of windows that are done already).

        A video is drawn only when a decoding process is free.
        """
        limits = self._execution.max_clips_per_video, self._execution.max_seconds_per_video
        own = OwnObjects()
        tasks = (
            ClipTask(index, video, self.plan, done, *limits, own.copy(index, video.path))
            for index, video, done in videos
        )
        steps: deque[_Step] = deque()
        underway: dict[int, VideoAccumulator] = {}
        # Closed before the pool is given to another call, also when a consumer stops early.
        with own, self._pool() as pool, closing(self._timed(pool, tasks)) as events:
            for event in events:
                if not isinstance(event, Event):
                    own.release(event.task.index)
                steps.extend(self._steps(event, underway))
                self._model.flush_overdue()
                while steps and (steps[0].done() or len(steps) > self._model.clips_in_flight):
                    yield from self._settle(steps.popleft())
            while steps:
                yield from self._settle(steps.popleft())

    def _timed(
        self, pool: WorkerPool[ClipTask], tasks: Iterator[ClipTask]
    ) -> Generator[Any, None, None]:
        """The events of the pool; counts the seconds that it takes to get them."""
        events: Any = pool.run(tasks)
        try:
            while True:
                before = time.perf_counter()
                event = next(events, None)
                self.times.waiting_for_decoders_seconds += time.perf_counter() - before
                if event is None:
                    return
                yield event
        finally:
            events.close()

    def _steps(
        self,
        event: Event[ClipTask] | Finished[ClipTask] | Failed[ClipTask],
        underway: dict[int, VideoAccumulator],
    ) -> Iterator[_Step]:
        """The steps of an event; a clip is submitted to the model here."""
        task = event.task
        accumulator = underway.get(task.index)
        if accumulator is None:
            accumulator = underway[task.index] = VideoAccumulator(
                task, self.scoring, multi_label=self._multi_label
            )
        if not isinstance(event, Event):
            del underway[task.index]
            yield _Step(accumulator, failure=event if isinstance(event, Failed) else None)
        elif isinstance(event.payload, VideoFacts):
            yield _Step(accumulator, facts=event.payload)
        else:
            clip: DecodedClip = event.payload
            output = self._model.submit(clip.frames)
            yield _Step(accumulator, clip.without_frames(), output)

    def _settle(self, step: _Step) -> Iterator[VideoScores]:
        if step.facts is not None:
            step.accumulator.facts = step.facts
            return
        if step.clip is None or step.output is None:
            yield from step.accumulator.end(step.failure)
            return
        before = time.perf_counter()
        output = step.output.result()
        self.times.waiting_for_model_seconds += time.perf_counter() - before
        yield from step.accumulator.take(step.clip, output)


def check_execution(scoring: Scoring, execution: Execution) -> None:
    """Raise `VideopipeError` when the device or the decoder cannot be used on this machine."""
    choose_device(execution.device)
    if scoring.decoder != "auto":
        try:
            load_backend(scoring.decoder)
        except DecodeError as error:
            raise VideopipeError(
                f"{error.reason}. Install its library or use the decoder auto"
            ) from None


def as_range(video: Video) -> VideoRange:
    """Any description of a video as a `VideoRange`."""
    if isinstance(video, VideoRange):
        return video
    if isinstance(video, str | os.PathLike):
        return VideoRange(os.fspath(video))
    rate = getattr(video, "given_rate", None)
    return VideoRange(os.fspath(video.path), video.start_seconds, video.end_seconds, rate)
