"""The folders of results: `runs/<stage>-<fingerprint>/`, complete when it has that name.

runs/finetuned-0123456789ab/            a complete result, with stage.json
runs/finetuned-0123456789ab.partial/    one in the making, with started.json
runs/.locks/                            which process makes which result
runs/.redo/                             requests of --redo that have not finished
runs/<pipeline>/                        pipeline.yaml (resolved), run.json, the report

A fingerprint covers what decides a result. Its revision covers the outcome: which items
failed, which --redo made it, and the revisions of its inputs. A result records the revisions of the
inputs it was made from, and is out of date when one of them has changed.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrained_2d.atomic import remove_leftovers, replace_folder, sync_folder, write_text
from videopipe.pipeline.fingerprint import FINGERPRINT_DIGITS, as_json, fingerprint
from videopipe.pipeline.jobs import Job

COMPLETE, STARTED = "stage.json", "started.json"
NUM_SHOWN = 20  # failures that stage.json names; the result itself has all of them


class Results:
    """The results below one runs folder."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs

    def folder(self, job: Job) -> Path:
        """The folder of the complete result."""
        return self.runs / job.folder_name

    def partial(self, job: Job) -> Path:
        """The folder in which the result is made."""
        return self.runs / f"{job.folder_name}.partial"

    def lock(self, job: Job) -> Path:
        """The file that is locked while the result is made."""
        return self.runs / ".locks" / job.folder_name

    def is_complete(self, job: Job) -> bool:
        """Whether a complete result exists, up to date or not."""
        return (self.folder(job) / COMPLETE).is_file()

    def record(self, job: Job) -> dict[str, Any]:
        """The content of stage.json of a complete result."""
        return read_record(self.folder(job) / COMPLETE) or {}

    def started(self, job: Job, purpose: Mapping[str, Any]) -> dict[str, Any] | None:
        """The record of an unfinished attempt with this purpose, if it can be resumed."""
        record = read_record(self.partial(job) / STARTED)
        if record is None or record.get("purpose", {}) != purpose:
            return None
        return None if self.changed_inputs(job, record) else record

    def changed_inputs(self, job: Job, record: Mapping[str, Any]) -> list[str]:
        """The stages whose results have changed since a record of `job` was written."""
        noted = record.get("input_revisions", {})
        changed = []
        for name, jobs in job.inputs.items():
            before = noted.get(name, [""] * len(jobs))
            for source, revision in zip(jobs, before, strict=True):
                if self.is_complete(source) and self._revision(source) != revision:
                    changed.append(source.stage)
        return list(dict.fromkeys(changed))

    def _revision(self, job: Job) -> str:
        return str(self.record(job).get("revision", ""))

    def begin(self, job: Job, purpose: Mapping[str, Any]) -> bool:
        """Prepare the partial folder; True when it holds work of an earlier attempt to resume."""
        folder = self.partial(job)
        earlier = self.started(job, purpose)
        if earlier is None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        for older in self.runs.glob(f".{job.folder_name}.*.older"):
            shutil.rmtree(older, ignore_errors=True)
        attempts = (earlier or {}).get("attempts", 0) + 1
        about = {**self._describe(job), "purpose": dict(purpose), "attempts": attempts}
        write_record(folder / STARTED, about | {"started": time.time()})
        return earlier is not None

    def complete(self, job: Job, summary: Mapping[str, Any], seconds: float) -> Path:
        """Turn the partial folder into the result: durable, whole, at once."""
        folder = self.partial(job)
        started = read_record(folder / STARTED) or self._describe(job)
        purpose = started.pop("purpose", {})
        redo = purpose.get("redo") or self.record(job).get("redo", "")
        failures = [] if job.record.failures is None else list(job.record.failures(folder))
        record = {
            **started,
            "summary": summary,
            "seconds": seconds,
            "redo": redo,
            "failed": len(failures),
            "first_failures": [f"{one.item}: {one.reason}" for one in failures[:NUM_SHOWN]],
            "revision": _revision_of(
                redo, [one.item for one in failures], started["input_revisions"]
            ),
        }
        write_record(folder / COMPLETE, record)
        (folder / STARTED).unlink(missing_ok=True)
        _make_durable(folder)
        replace_folder(folder, self.folder(job))
        return self.folder(job)

    def _describe(self, job: Job) -> dict[str, Any]:
        """The content of a record before the job has run."""
        return {
            "format": 1,
            "stage": job.stage,
            "use": job.use,
            "variant": as_json(job.variant),
            "fingerprint": job.fingerprint,
            "identity": job.identity,
            "config": as_json(job.config),
            "inputs": {name: [j.folder_name for j in jobs] for name, jobs in job.inputs.items()},
            "input_revisions": {
                name: [self._revision(j) for j in jobs] for name, jobs in job.inputs.items()
            },
        }

    def redo_request(self, jobs: Sequence[Job]) -> str:
        """The id of a request to make these jobs again; the unfinished one if there is one."""
        path = self._redo_path(jobs)
        request = read_record(path)
        if request is None:
            folders = [job.folder_name for job in jobs]
            request = {"id": uuid.uuid4().hex[:FINGERPRINT_DIGITS], "jobs": folders}
            write_record(path, request)
        return str(request["id"])

    def pending_redo(self, jobs: Sequence[Job]) -> str:
        """The id of the unfinished request to make these jobs again; empty without one."""
        return str((read_record(self._redo_path(jobs)) or {}).get("id", ""))

    def finish_redo(self, jobs: Sequence[Job]) -> None:
        """Remove the requests that concern only these jobs, whose results are complete."""
        names = {job.folder_name for job in jobs}
        for path in (self.runs / ".redo").glob("*.json"):
            request = read_record(path)
            if request is None or set(request["jobs"]) <= names:
                path.unlink(missing_ok=True)

    def _redo_path(self, jobs: Sequence[Job]) -> Path:
        name = fingerprint(sorted(job.folder_name for job in jobs))
        return self.runs / ".redo" / f"{name}.json"

    def earlier(self, stage: str) -> Iterator[dict[str, Any]]:
        """The records of every result of a stage of this name, the newest first."""
        files = [
            file
            for folder in self.runs.glob(f"{stage}-*")
            for file in (folder / COMPLETE, folder / STARTED)
            if file.is_file()
        ]
        for file in sorted(files, key=lambda file: file.stat().st_mtime, reverse=True):
            record = read_record(file)
            if record is not None and record.get("stage") == stage:
                yield record


def _revision_of(redo: str, failed: Sequence[str], inputs: Mapping[str, Sequence[str]]) -> str:
    """Empty when nothing failed and nothing was made again, here and in the inputs."""
    plain = not (redo or failed or any(map(any, inputs.values())))
    return "" if plain else fingerprint([redo, sorted(failed), inputs])


def read_record(path: Path) -> dict[str, Any] | None:
    """A record, or None when there is none or it is damaged."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record, whole or not at all."""
    write_text(path, json.dumps(record, indent=2, default=str) + "\n")


def _make_durable(folder: Path) -> None:
    for below, _, names in os.walk(folder):
        for name in names:
            file = Path(below, name)
            if file.is_file() and not file.is_symlink():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        sync_folder(Path(below))
