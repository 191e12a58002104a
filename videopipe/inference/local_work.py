"""The videos of a plan, done by this process and its decoders."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from videopipe.inference.engine import Engine, Job
from videopipe.inference.parts import PartWriter
from videopipe.inference.planning import Plan
from videopipe.inference.processes import Team
from videopipe.inference.rows import Columns, make_row
from videopipe.inference.settings import Execution, Scoring
from videopipe.models import load_model
from videopipe.progress import Bar, progress


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is to be done, and where the rows go."""

    model: Path
    scoring: Scoring
    execution: Execution
    columns: Columns
    plan: Plan
    team: Team
    writer: PartWriter


def do_work(work: Work) -> dict[str, Any]:
    """Do this process's share of the plan; -> where its time went."""
    before = time.perf_counter()
    network, card = load_model(work.model)
    tasks = work.plan.tasks
    done_before = len(work.plan.order) - len(tasks)
    execution = on_own_device(work.execution, work.team)
    writing_seconds = 0.0
    with (
        Engine(network, card, work.scoring, execution) as engine,
        progress("predicting", total=len(work.plan.order), unit="videos") as bar,
    ):
        starting_seconds = time.perf_counter() - before
        watch = Watch(bar, work.team, len(tasks), done_before)
        for scores in engine.run(_jobs(work)):
            begun = time.perf_counter()
            work.writer.add(make_row(scores, work.columns))
            writing_seconds += time.perf_counter() - begun
            if scores.last:
                watch.count(scores.status)
        watch.end()
    return {
        "videos": watch.videos,
        "starting_seconds": starting_seconds,
        "writing_seconds": writing_seconds,
        "seconds": time.perf_counter() - before,
        **asdict(engine.times),
    }


def _jobs(work: Work) -> Iterator[Job]:
    for number in work.team.shares(len(work.plan.tasks)):
        task = work.plan.tasks[number]
        yield number, task.source, task.windows_done


def on_own_device(execution: Execution, team: Team) -> Execution:
    """Each process of a machine on its own accelerator."""
    import torch

    found = torch.accelerator.current_accelerator(check_available=True)
    if team.size == 1 or found is None or execution.device not in ("auto", found.type):
        return execution
    number = team.local_rank % torch.accelerator.device_count()
    return replace(execution, device=f"{found.type}:{number}")


class Watch:
    """Shows how far the whole team has come."""

    def __init__(self, bar: Bar, team: Team, num_tasks: int, done_before: int) -> None:
        self.bar, self.team, self.num_tasks = bar, team, num_tasks
        self.videos = self.failed = self.shown = 0
        if done_before:
            bar.advance(done_before, note=f"{done_before} done before")

    def count(self, status: str) -> None:
        """One more video is finished."""
        self.videos += 1
        self.failed += status != "ok"
        self._show(self.videos if self.team.size == 1 else self.team.taken())

    def end(self) -> None:
        """Other processes may still be at their last videos."""
        if self.team.size > 1:
            self._show(self.team.taken())

    def _show(self, done: int) -> None:
        done = min(done, self.num_tasks)  # each of several processes reaches once beyond the end
        alone = self.team.size == 1  # else there are failures that only the others know of
        self.bar.advance(
            done - self.shown, f"{self.failed} not ok" if self.failed and alone else ""
        )
        self.shown = done
