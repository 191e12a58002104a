"""The decision about each job, which `run` follows: cached, retry, resume or run, and why."""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from videopipe.pipeline.fingerprint import as_json
from videopipe.pipeline.jobs import Job
from videopipe.pipeline.results import Results
from videopipe.pipeline.stage import variant_in_words

Action = Literal["cached", "retry", "resume", "run"]
ACTIONS: tuple[Action, ...] = ("cached", "retry", "resume", "run")
NOT_REQUESTED_YET = "new"  # in place of the id of a --redo that has not been requested


@dataclass(frozen=True)
class PlannedJob:
    """The action for one job, and the reasons."""

    job: Job
    action: Action
    reasons: tuple[str, ...] = ()
    note: str = ""  # about a cached result
    replaces: bool = False  # an existing result; dependent jobs run again
    purpose: Mapping[str, Any] = field(default_factory=dict)  # an attempt resumes for the same one


def plan_jobs(
    jobs: Sequence[Job],
    results: Results,
    *,
    redo: Collection[str] = (),
    retry_failed: bool = False,
) -> list[PlannedJob]:
    """The action for every job, in order."""
    named = [job for job in jobs if job.stage in redo]
    request = results.pending_redo(named) or NOT_REQUESTED_YET
    planned: dict[Job, PlannedJob] = {}
    for job in jobs:
        decision = decide(
            job, results, redo=request if job in named else "", retry_failed=retry_failed
        )
        above = [planned[source] for inputs in job.inputs.values() for source in inputs]
        if decision.action == "cached":
            decision = _follow(decision, above)
        planned[job] = decision
    return list(planned.values())


def decide(job: Job, results: Results, *, redo: str = "", retry_failed: bool = False) -> PlannedJob:
    """What to do with one job, given the results of its inputs.

    `redo` is the id of a request to make it again. Without `retry_failed`, failed items of a result
    are retried only when a limit that may have caused them was raised.
    """
    record = results.record(job) if results.is_complete(job) else None
    if redo and (record is None or record.get("redo") != redo):
        planned = _make(job, results, {"redo": redo}, ("requested with --redo",))
        return dataclasses.replace(planned, replaces=record is not None)
    if record is None:
        return _make(job, results, {}, tuple(_reasons(job, results)))
    if changed := results.changed_inputs(job, record):
        why = f"the result of {', '.join(changed)} has changed since"
        return dataclasses.replace(_make(job, results, {}, (why,)), replaces=True)
    if not record.get("failed"):
        return PlannedJob(job, "cached", note="made again by the unfinished --redo" if redo else "")
    failed = f"{record['failed']} failed ({', '.join(record['first_failures'][:1])})"
    raised = tuple(raised_limits(job.config, record.get("config", {})))
    if not (raised or retry_failed):
        return PlannedJob(job, "cached", note=f"{failed}; --retry-failed retries them")
    purpose = {"retry": record.get("revision", "")}
    resumes = results.started(job, purpose) is not None
    return PlannedJob(job, "resume" if resumes else "retry", (failed, *raised), purpose=purpose)


def _make(
    job: Job, results: Results, purpose: Mapping[str, Any], reasons: tuple[str, ...]
) -> PlannedJob:
    started = results.started(job, purpose)
    if started is not None:
        attempts = started.get("attempts", 1)
        times = "once" if attempts == 1 else f"{attempts} times"
        return PlannedJob(job, "resume", (f"interrupted {times}",), purpose=purpose)
    return PlannedJob(job, "run", reasons, purpose=purpose)


def _follow(decision: PlannedJob, above: Sequence[PlannedJob]) -> PlannedJob:
    """A cached result whose inputs are about to change."""
    if any(one.replaces for one in above):
        why = "depends on a stage that is made again"
        return dataclasses.replace(decision, action="run", reasons=(why,), note="", replaces=True)
    if retried := [one.job.stage for one in above if one.action == "retry"]:
        note = f"made again if the retry of {', '.join(retried)} succeeds"
        return dataclasses.replace(decision, note=note)
    return decision


def raised_limits(config: Any, before: Any, prefix: str = "") -> Iterator[str]:
    """The limits (timeout, memory) that are higher in `config` than in a recorded one."""
    for entry in dataclasses.fields(config):
        value = getattr(config, entry.name)
        old = before.get(entry.name, _ABSENT) if isinstance(before, Mapping) else _ABSENT
        if dataclasses.is_dataclass(value):
            yield from raised_limits(value, old, f"{prefix}{entry.name}.")
        elif entry.metadata.get("limit") and not isinstance(old, _Absent):
            no_limit = math.inf
            if (no_limit if value is None else value) > (no_limit if old is None else old):
                yield f"{prefix}{entry.name}: {old} -> {value}"


def _reasons(job: Job, results: Results) -> list[str]:
    """The differences to the most similar earlier result of this stage and place in the matrix."""
    variant = as_json(job.variant)
    earlier = [r for r in results.earlier(job.stage) if r.get("variant") == variant]
    if not earlier:
        values = variant_in_words(variant)
        return [f"never run with {values}" if values else "never run"]
    # `min` keeps the first of equals, and the newest comes first.
    return min((differences(record, job) for record in earlier), key=len) or ["its result is gone"]


def differences(record: Mapping[str, Any], job: Job) -> list[str]:
    """The differences between a job and the job of a record: key, old and new value."""
    old, new = record.get("identity", {}), job.identity
    found = []
    if old.get("use") != new["use"]:
        found.append(f"use: {old.get('use')} -> {new['use']}")
    if old.get("version") != new["version"]:
        found.append(f"version of {job.use}: {old.get('version')} -> {new['version']}")
    before, after = _flat(old.get("config", {})), _flat(new["config"])
    shown_before, shown_after = _flat(record.get("config", {})), _flat(as_json(job.config))
    for key in [*after, *(key for key in before if key not in after)]:
        if before.get(key, _ABSENT) == after.get(key, _ABSENT):
            continue
        was, now = shown_before.get(key, _ABSENT), shown_after.get(key, _ABSENT)
        if was == now:  # the same path
            found.append(f"{key}: the files below {now} have changed")
        else:
            found.append(f"{key}: {was} -> {now}")
    given = old.get("inputs", {})
    for name in [*new["inputs"], *(name for name in given if name not in new["inputs"])]:
        before_it, after_it = given.get(name, []), new["inputs"].get(name, [])
        if before_it != after_it:
            pairs = zip(job.inputs.get(name, ()), after_it, strict=True)
            new_ones = dict.fromkeys(job.stage for job, made in pairs if made not in before_it)
            words = (
                f"another result of {', '.join(new_ones)}"
                if new_ones
                else "fewer results, or in another order"
            )
            found.append(f"input {name}: {words}")
    return found


class _Absent:
    def __str__(self) -> str:
        return "(not set)"


_ABSENT = _Absent()


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    if not isinstance(value, Mapping):
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat.update(_flat(inner, f"{prefix}.{key}" if prefix else str(key)))
    return flat
