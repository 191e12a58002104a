"""Before anything runs: what is cached, what would resume, what would run, and why."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from videopipe.fingerprint import as_json
from videopipe.pipeline import Job
from videopipe.results import STARTED, Results, read_record
from videopipe.runner import with_dependants
from videopipe.stage import variant_in_words


@dataclass(frozen=True)
class Planned:
    """What would happen to one job, and the reasons."""

    job: Job
    action: Literal["cached", "resume", "run"]
    reasons: tuple[str, ...]


def plan_jobs(
    jobs: Sequence[Job], results: Results, *, redo: Collection[str] = ()
) -> list[Planned]:
    """The action for every job, in order."""
    again = with_dependants(jobs, redo)
    return [_plan(job, results, redo=job in again, named=job.stage in redo) for job in jobs]


def _plan(job: Job, results: Results, *, redo: bool, named: bool) -> Planned:
    if redo:
        why = "asked for with --redo" if named else "depends on a stage that is made again"
        return Planned(job, "run", (why,))
    if results.is_complete(job):
        return Planned(job, "cached", ())
    started = read_record(results.partial(job) / STARTED)
    if started is not None:
        attempts = started.get("attempts", 1)
        times = "once" if attempts == 1 else f"{attempts} times"
        return Planned(job, "resume", (f"interrupted {times}",))
    return Planned(job, "run", tuple(_reasons(job, results)))


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
    """What sets a job apart from the job of a record, key by key, old and new value."""
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
