"""What a run leaves for people and for the report: `runs/<pipeline>/`.

pipeline.yaml    the resolved pipeline, itself a valid input
previous.yaml    the one before it, when it was another
run.json         command, versions, times, and for every job its state and result folder
"""

import contextlib
import platform
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pretrained_2d.atomic import write_text
from videopipe.config import write_yaml
from videopipe.fingerprint import as_json
from videopipe.pipeline import Job, Pipeline
from videopipe.results import write_record

PACKAGES = ("videopipe", "torch", "torchvision", "timm", "accelerate", "av", "numpy")


class RunLog:
    """Written anew at every step, so that an interrupted run can be read too."""

    def __init__(self, pipeline: Pipeline, jobs: Sequence[Job], runs: Path) -> None:
        self.folder = runs / pipeline.name
        self._pipeline = write_yaml(dict(pipeline.resolved))
        self._jobs = {job: self._entry(job) for job in jobs}
        self._started: dict[Job, float] = {}
        self._record: dict[str, Any] = {
            "format": 1,
            "name": pipeline.name,
            "command": " ".join(["videopipe", *sys.argv[1:]]),
            "started": time.time(),
            "state": "running",
            "environment": environment(),
        }

    def begin(self) -> None:
        """Save the resolved pipeline and the list of jobs."""
        path = self.folder / "pipeline.yaml"
        with contextlib.suppress(OSError):  # a read-only folder of finished results still answers
            if path.is_file() and path.read_text() != self._pipeline:
                write_text(self.folder / "previous.yaml", path.read_text())
            write_text(path, self._pipeline)
        self._write()

    def note(self, job: Job, state: str) -> None:
        """Keep what became of a job."""
        now = time.time()
        self._started.setdefault(job, now)
        entry = self._jobs[job]
        entry["state"] = state
        entry["seconds"] = round(now - self._started[job], 3)
        if state in ("failed", "interrupted"):
            self._record["state"] = state
        self._write()

    def finish(self) -> None:
        """The run came to its end."""
        self._record["state"] = "complete"
        self._write()

    def _write(self) -> None:
        self._record["seconds"] = round(time.time() - self._record["started"], 3)
        with contextlib.suppress(OSError):  # the log must never stop or mask what it is about
            write_record(
                self.folder / "run.json", {**self._record, "jobs": list(self._jobs.values())}
            )

    @staticmethod
    def _entry(job: Job) -> dict[str, Any]:
        return {
            "stage": job.stage,
            "use": job.use,
            "variant": as_json(job.variant),
            "folder": job.folder_name,
            "inputs": {name: [j.folder_name for j in jobs] for name, jobs in job.inputs.items()},
            "state": "waiting",
            "seconds": 0.0,
        }


def environment() -> dict[str, str]:
    """Versions of what results depend on, without importing any of it."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
