"""Where results lie: `runs/<stage>-<fingerprint>/`, complete when it has that name.

runs/finetuned-0123456789ab/            a complete result, with stage.json
runs/finetuned-0123456789ab.partial/    one in the making, with started.json
runs/.locks/                            who is making which
runs/<pipeline>/                        pipeline.yaml (resolved), run.json, the report
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pretrained_2d.atomic import remove_leftovers, replace_folder, sync_folder, write_text
from videopipe.fingerprint import as_json
from videopipe.pipeline import Job

COMPLETE, STARTED = "stage.json", "started.json"


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
        """Whether the result is there, whole."""
        return (self.folder(job) / COMPLETE).is_file()

    def record(self, job: Job) -> dict[str, Any]:
        """What stage.json of a complete result says."""
        return read_record(self.folder(job) / COMPLETE) or {}

    def begin(self, job: Job, record: Mapping[str, Any]) -> dict[str, Any]:
        """Make or find the partial folder; says what earlier attempts left there."""
        folder = self.partial(job)
        earlier = read_record(folder / STARTED) or {}
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        for older in self.runs.glob(f".{job.folder_name}.*.older"):
            shutil.rmtree(older, ignore_errors=True)
        attempts = earlier.get("attempts", 0) + 1
        write_record(folder / STARTED, {**describe(job), **record, "attempts": attempts})
        return earlier

    def complete(self, job: Job, record: Mapping[str, Any]) -> Path:
        """Turn the partial folder into the result: durable, whole, at once."""
        folder = self.partial(job)
        attempts = (read_record(folder / STARTED) or {}).get("attempts", 1)
        write_record(folder / COMPLETE, {**describe(job), **record, "attempts": attempts})
        (folder / STARTED).unlink(missing_ok=True)
        _make_durable(folder)
        replace_folder(folder, self.folder(job))
        return self.folder(job)

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


def describe(job: Job) -> dict[str, Any]:
    """What a record says of a job before it has run."""
    return {
        "format": 1,
        "stage": job.stage,
        "use": job.use,
        "variant": as_json(job.variant),
        "fingerprint": job.fingerprint,
        "identity": job.identity,
        "config": as_json(job.config),
        "inputs": {name: [j.folder_name for j in jobs] for name, jobs in job.inputs.items()},
    }


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
