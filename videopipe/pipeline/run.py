"""Running the jobs of a pipeline: each result made once, whole, and kept.

If the result of a job exists, it is reused. Any other is made in a partial folder under a lock; a
run that was interrupted resumes in that folder. Complete results are kept, whatever happens to a
later stage.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from videopipe.errors import StageError, VideopipeError
from videopipe.pipeline.explain import explained
from videopipe.pipeline.fingerprint import as_json
from videopipe.pipeline.jobs import Job
from videopipe.pipeline.plan import PlannedJob, decide
from videopipe.pipeline.results import Results
from videopipe.pipeline.stage import Inputs, Result
from videopipe.system.lock import locked
from videopipe.system.processes import Processes, connected_processes
from videopipe.system.progress import duration, log_line, stages_only

State = Literal["cached", "done", "resumed"]
OnState = Callable[[Job, str], None]
BEGINNING = {"run": "running", "resume": "resuming", "retry": "retrying what failed"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one job."""

    job: Job
    state: State
    folder: Path
    seconds: float  # spent on it now; 0 when cached
    summary: Mapping[str, Any]
    failed: int = 0  # items of the result that failed


def run_jobs(
    jobs: Sequence[Job],
    runs: Path,
    *,
    redo: Collection[str] = (),
    retry_failed: bool = False,
    on_state: OnState = lambda _job, _state: None,
) -> list[Outcome]:
    """Make the result of every job that has none, in order.

    `redo` names stages to be made again; everything that depends on them follows. `retry_failed`
    retries the failed items of complete results. `on_state` receives "running", then "cached",
    "done", "resumed", "failed" or "interrupted", in the first process.

    Raises:
        StageError: a stage failed with an expected error; other exceptions propagate unchanged.
    """
    processes, results = connected_processes(), Results(runs)
    options = _RunOptions(jobs, redo, retry_failed)
    outcomes: dict[Job, Outcome] = {}
    for number, job in enumerate(jobs, 1):
        place = f"[{number}/{len(jobs)}] {job.label}"
        task = _Task(job, results, processes, place, options)
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
    if processes.first:
        results.finish_redo(jobs)
    return list(outcomes.values())


@dataclass
class _RunOptions:
    """The options of a run, and the jobs that have been checked for it."""

    jobs: Sequence[Job]
    redo: Collection[str]
    retry_failed: bool
    checked: set[Job] = field(default_factory=set)

    def decide(self, job: Job, results: Results) -> PlannedJob:
        named = [other for other in self.jobs if other.stage in self.redo]
        request = results.redo_request(named) if job in named else ""
        return decide(job, results, redo=request, retry_failed=self.retry_failed)

    def check(self, results: Results) -> None:
        """Find jobs that cannot succeed, from the results so far, before the next one runs.

        Raises:
            StageError: names the job and the reason.
        """
        for job in self.jobs:
            if job.record.check is None or job in self.checked or results.is_complete(job):
                continue
            try:
                job.record.check(job.config, _inputs_of(job, results))
            except VideopipeError as error:
                raise StageError(f"stage '{job.label}' cannot succeed: {error}") from error
            if all(
                results.is_complete(source) for inputs in job.inputs.values() for source in inputs
            ):
                self.checked.add(job)


@dataclass
class _Task:
    """One job that is being run."""

    job: Job
    results: Results
    processes: Processes
    place: str
    options: _RunOptions

    def lead(self, on_state: OnState) -> Outcome:
        """In the first process: decide, run, complete the result, and share the outcome."""
        others_wait = True  # for a value from `share`, and not inside the stage
        try:
            if (planned := self._decide()).action == "cached":
                return self._cached(planned, on_state)
            with locked(self.results.lock(self.job), on_wait=self._log_waiting):
                if (planned := self._decide()).action == "cached":  # made by another process
                    return self._cached(planned, on_state)
                self.options.check(self.results)
                start = time.time()
                resumes = self._begin(planned)
                on_state(self.job, "running")
                log_line(self._beginning(BEGINNING[planned.action]))
                self.processes.share("run")
                others_wait = not self.job.record.distributed
                summary = self._run()
                if self.job.record.distributed:
                    self.processes.wait()
                others_wait = True
                seconds = time.time() - start
                self.results.complete(self.job, summary, seconds)
        except Exception:
            if others_wait:
                self.processes.share("failed")
            raise
        self.processes.share("complete")
        state: State = "resumed" if resumes else "done"
        outcome = self._outcome(state, seconds)
        log_line(self._ending(summary, seconds))
        if outcome.failed:
            log_line(f"{self.place}: {self._decide().note}")
        on_state(self.job, state)
        return outcome

    def follow(self) -> Outcome:
        """In every other process: follow the decision of the first."""
        verdict = self.processes.share()
        if verdict == "run":
            if self.job.record.distributed:
                self._run()
                self.processes.wait()
            verdict = self.processes.share()
        if verdict == "failed":
            raise StageError("stopped, because the first process failed")
        return self._outcome("done")

    def _beginning(self, state: str) -> str:
        sentence = self.job.record.sentence
        shown = stages_only() and state == BEGINNING["run"]
        return f"{self.place}: {sentence}" if shown else f"{self.place}: {state}: {sentence}"

    def _ending(self, summary: Mapping[str, Any], seconds: float) -> str:
        words = self._outcome_in_words(summary)
        if stages_only() and words:
            return f"      {words.removeprefix(': ')} ({duration(seconds)})"
        return f"{self.place}: done in {duration(seconds)}{words}"

    def _outcome_in_words(self, summary: Mapping[str, Any]) -> str:
        outcome = self.job.record.outcome
        return f": {outcome(dict(summary))}" if stages_only() and outcome else in_words(summary)

    def _begin(self, planned: PlannedJob) -> bool:
        resumes = self.results.begin(self.job, planned.purpose)
        keep = self.job.record.keep
        if "retry" in planned.purpose and keep is not None and not resumes:
            folder, out = self.results.folder(self.job), self.results.partial(self.job)
            keep(self.job.config, _inputs_of(self.job, self.results), folder, out)
        return resumes

    def _run(self) -> Mapping[str, Any]:
        inputs = _inputs_of(self.job, self.results)
        summary = self.job.record.run(self.job.config, inputs, self.results.partial(self.job))
        plain: Mapping[str, Any] = as_json(summary)
        return plain

    def _decide(self) -> PlannedJob:
        return self.options.decide(self.job, self.results)

    def _cached(self, planned: PlannedJob, on_state: OnState) -> Outcome:
        outcome = self._outcome("cached")
        note = f" ({planned.note})" if planned.note else ""
        log_line(f"{self.place}: cached{self._outcome_in_words(outcome.summary)}{note}")
        on_state(self.job, "cached")
        self.processes.share("cached")
        return outcome

    def _outcome(self, state: State, seconds: float = 0.0) -> Outcome:
        record = self.results.record(self.job)
        summary, failed = record.get("summary", {}), record.get("failed", 0)
        return Outcome(self.job, state, self.results.folder(self.job), seconds, summary, failed)

    def _log_waiting(self, holder: str) -> None:
        log_line(f"{self.place}: waiting for {holder}, which makes this result")


def _inputs_of(job: Job, results: Results) -> Inputs:
    """The results of the inputs; those of jobs that have not run have a folder without content."""
    return Inputs(
        {
            name: [
                Result(
                    results.folder(source),
                    source.stage,
                    source.variant,
                    results.record(source).get("summary", {}),
                    source.config,
                    _inputs_of(source, results),
                )
                for source in sources
            ]
            for name, sources in job.inputs.items()
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
