"""Predict the videos of a plan in this process."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from videopipe.dataset.lists.video_range import VideoRange
from videopipe.prediction.execution.shared_run import SharedRun
from videopipe.prediction.request import RowMaker, TableRequest
from videopipe.prediction.resume import PredictionPlan
from videopipe.prediction.table.arrow_parts import ArrowPartWriter
from videopipe.prediction.table.parts import PartWriter
from videopipe.scoring.settings import Execution
from videopipe.system.progress import Bar, progress

LISTING_SECONDS = 5.0  # after which the bar is shown although the number of videos is not known


@dataclass(frozen=True)
class PredictionWork:
    """The videos to predict, how, and where the rows go."""

    request: TableRequest
    columns: RowMaker
    plan: PredictionPlan
    run: SharedRun
    writer: PartWriter | ArrowPartWriter


def predict_tasks(work: PredictionWork) -> dict[str, Any]:
    """Predict this process's share of the plan; -> where its time went."""
    before = time.perf_counter()
    execution = on_own_device(work.request.execution, work.run)
    writing_seconds = 0.0
    with (
        work.request.make_engine(execution) as engine,
        RunProgress(work.plan, work.run) as shown,
    ):
        starting_seconds = time.perf_counter() - before
        for scores in engine.run(_numbered_videos(work)):
            begun = time.perf_counter()
            work.writer.add(*work.columns.rows(scores))
            writing_seconds += time.perf_counter() - begun
            if work.plan.listing is not None:
                work.plan.listing.read_on()
            if scores.last:
                shown.count(scores.status)
    return {
        "videos": shown.videos,
        "starting_seconds": starting_seconds,
        "writing_seconds": writing_seconds,
        "seconds": time.perf_counter() - before,
        **asdict(engine.times),
    }


def _numbered_videos(work: PredictionWork) -> Iterator[tuple[int, VideoRange, int]]:
    if work.plan.listing is not None:
        yield from ((number, video, 0) for number, video in enumerate(work.plan.listing))
        return
    for number in work.run.shares(len(work.plan.tasks)):
        task = work.plan.tasks[number]
        yield number, task.video, task.windows_done


def on_own_device(execution: Execution, run: SharedRun) -> Execution:
    """The accelerator of this process, when several processes share a machine."""
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    if run.size == 1 or found is None or execution.device not in ("auto", found.type):
        return execution
    number = run.local_rank % torch.accelerator.device_count()
    return replace(execution, device=f"{found.type}:{number}")


class RunProgress:
    """The progress bar of all processes of a run. It counts what was left when the run started."""

    def __init__(self, plan: PredictionPlan, run: SharedRun) -> None:
        self.plan, self.run = plan, run
        self.videos = self.failed = self.shown = 0
        self.started = time.monotonic()
        self._bar: Bar | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self.run.size > 1 and error[0] is None:
            self._show(self.run.taken())  # others may still be busy with their last videos
        self._open.__exit__(*error)

    def count(self, status: str) -> None:
        """Count one more finished video."""
        self.videos += 1
        self.failed += status != "ok"
        self._show(self.videos if self.run.size == 1 else self.run.taken())

    def _show(self, done: int) -> None:
        total = self.plan.num_tasks
        waited = time.monotonic() - self.started
        if self._bar is None and (total is not None or waited > LISTING_SECONDS):
            bar = progress("predicting", total=total, unit="videos")
            self._bar = self._open.enter_context(bar)
        if self._bar is None:
            return  # the number of videos is not known yet
        if total is not None:
            done = min(done, total)  # each of several processes draws one number beyond the end
        alone = self.run.size == 1  # the failures of other processes are not known here
        note = f"{self.failed} not ok" if self.failed and alone else ""
        self._bar.advance(done - self.shown, note)
        self.shown = done
