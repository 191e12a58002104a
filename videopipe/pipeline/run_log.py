"""The record of a run in `runs/<pipeline>/`, which the report reads.

pipeline.yaml    the resolved pipeline, itself a valid input
previous.yaml    the one of the run before, if it was different
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
from videopipe.pipeline.document.yaml_text import write_yaml
from videopipe.pipeline.fingerprint import as_json
from videopipe.pipeline.jobs import Job, Pipeline
from videopipe.pipeline.results import write_record

PACKAGES = (
    "videopipe", "torch", "torchvision", "timm", "accelerate", "numba", "numpy", "av", "decord",
    "torchcodec",
)  # fmt: skip


class RunLog:
    """Rewritten whenever the state of a job changes, so that an interrupted run has one too."""

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
        with contextlib.suppress(OSError):  # a read-only folder of complete results can be used
            if path.is_file() and path.read_text() != self._pipeline:
                write_text(self.folder / "previous.yaml", path.read_text())
            write_text(path, self._pipeline)
        self._write()

    def note(self, job: Job, state: str) -> None:
        """Record the state of a job."""
        now = time.time()
        self._started.setdefault(job, now)
        entry = self._jobs[job]
        entry["state"] = state
        entry["seconds"] = round(now - self._started[job], 3)
        if state in ("failed", "interrupted"):
            self._record["state"] = state
        self._write()

    def finish(self) -> None:
        """Record that the run is complete."""
        self._record["state"] = "complete"
        self._write()

    def _write(self) -> None:
        self._record["seconds"] = round(time.time() - self._record["started"], 3)
        with contextlib.suppress(OSError):  # the log must not stop the run
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
    """Versions of the packages that results depend on; none of them is imported."""
    found = {}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found | {"python": platform.python_version(), "platform": platform.platform()}
