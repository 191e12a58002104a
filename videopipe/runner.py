"""Running the jobs of a pipeline: each result made once, whole, and kept.

A job whose result is there is answered from it. Any other is made in a partial folder under a
lock; a run that was interrupted goes on in that folder. What is finished stays finished, whatever
happens to a later stage.
"""

import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from videopipe.errors import StageError
from videopipe.failures import explained
from videopipe.fingerprint import as_json
from videopipe.lock import locked
from videopipe.pipeline import Job
from videopipe.processes import Processes
from videopipe.progress import duration, say
from videopipe.results import Results
from videopipe.stage import Inputs, Result

State = Literal["cached", "done", "resumed"]
OnState = Callable[[Job, str], None]


@dataclass(frozen=True)
class Outcome:
    """What became of one job."""

    job: Job
    state: State
    folder: Path
    seconds: float  # spent on it now; 0 when cached
    summary: Mapping[str, Any]


def run_jobs(
    jobs: Sequence[Job],
    runs: Path,
    *,
    redo: Collection[str] = (),
    on_state: OnState = lambda _job, _state: None,
) -> list[Outcome]:
    """Make the result of every job that has none, in order.

    `redo` names stages to be made again, with all that depends on them. `on_state` hears "running",
    then "cached", "done", "resumed", "failed" or "interrupted", in the first process.

    Raises:
        StageError: a stage failed in a way its message explains; other faults pass through.
    """
    processes = Processes()
    results = Results(runs)
    again = with_dependants(jobs, redo)
    outcomes: dict[Job, Outcome] = {}
    for number, job in enumerate(jobs, 1):
        place = f"[{number}/{len(jobs)}] {job.label}"
        task = _Task(job, _inputs_of(job, outcomes), results, processes, place, job in again)
        try:
            outcomes[job] = task.lead(on_state) if processes.first else task.follow()
        except BaseException as error:
            if processes.first:
                interrupted = isinstance(error, KeyboardInterrupt)
                on_state(job, "interrupted" if interrupted else "failed")
            problem = explained(error, job, runs)
            if problem is error:
                raise
            raise problem from error
    return list(outcomes.values())


def with_dependants(jobs: Sequence[Job], stages: Collection[str]) -> set[Job]:
    """The jobs of the named stages and every job that depends on one of them."""
    found: set[Job] = set()
    for job in jobs:
        sources = {source for inputs in job.inputs.values() for source in inputs}
        if job.stage in stages or sources & found:
            found.add(job)
    return found


@dataclass
class _Task:
    """One job on its way to its result."""

    job: Job
    inputs: Inputs
    results: Results
    processes: Processes
    place: str
    redo: bool

    def lead(self, on_state: OnState) -> Outcome:
        """The first process decides, makes and completes, and tells the others."""
        others_wait = True  # for a word from here, and not inside the stage
        try:
            if self._is_there():
                return self._cached(on_state)
            with locked(self.results.lock(self.job), on_wait=self._say_waiting):
                if self._is_there():  # made by the process we waited for
                    return self._cached(on_state)
                if self.redo:
                    shutil.rmtree(self.results.partial(self.job), ignore_errors=True)
                started = time.time()
                earlier = self.results.begin(self.job, {"started": started})
                on_state(self.job, "running")
                say(f"{self.place}: {'going on where it stopped' if earlier else 'running'}")
                self.processes.share("run")
                others_wait = not self.job.record.distributed
                summary = self._run()
                if self.job.record.distributed:
                    self.processes.wait()
                others_wait = True
                seconds = time.time() - started
                record = {"summary": summary, "started": started, "seconds": seconds}
                folder = self.results.complete(self.job, record)
        except Exception:
            if others_wait:
                self.processes.share("failed")
            raise
        self.processes.share("complete")
        state: State = "resumed" if earlier else "done"
        say(f"{self.place}: done in {duration(seconds)}{in_words(summary)}")
        on_state(self.job, state)
        return Outcome(self.job, state, folder, seconds, summary)

    def follow(self) -> Outcome:
        """Every other process does what the first one says."""
        verdict = self.processes.share()
        if verdict == "run":
            if self.job.record.distributed:
                self._run()
                self.processes.wait()
            verdict = self.processes.share()
        if verdict == "failed":
            raise StageError("stopped, because the first process did")
        return self._outcome("done")

    def _run(self) -> Mapping[str, Any]:
        summary = self.job.record.run(self.job.config, self.inputs, self.results.partial(self.job))
        plain: Mapping[str, Any] = as_json(summary)
        return plain

    def _is_there(self) -> bool:
        return self.results.is_complete(self.job) and not self.redo

    def _cached(self, on_state: OnState) -> Outcome:
        outcome = self._outcome("cached")
        say(f"{self.place}: cached{in_words(outcome.summary)}")
        on_state(self.job, "cached")
        self.processes.share("cached")
        return outcome

    def _outcome(self, state: State) -> Outcome:
        summary = self.results.record(self.job).get("summary", {})
        return Outcome(self.job, state, self.results.folder(self.job), 0.0, summary)

    def _say_waiting(self, holder: str) -> None:
        say(f"{self.place}: being made by {holder}; waiting for it")


def _inputs_of(job: Job, outcomes: Mapping[Job, Outcome]) -> Inputs:
    return Inputs(
        {
            name: [
                Result(outcomes[j].folder, j.stage, j.variant, outcomes[j].summary) for j in jobs
            ]
            for name, jobs in job.inputs.items()
        }
    )


def in_words(summary: Mapping[str, Any]) -> str:
    """The short values of a summary: `: top1 0.93, videos 40`."""
    words = []
    for key, value in summary.items():
        if isinstance(value, float):
            words.append(f"{key} {value:.4g}")
        elif isinstance(value, int | str) and len(str(value)) <= 40:
            words.append(f"{key} {value}")
    return f": {', '.join(words[:6])}" if words else ""
