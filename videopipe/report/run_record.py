"""Read the record of a run (`run.json`) and find its results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from videopipe.errors import DataError
from videopipe.pipeline.results import COMPLETE, read_record
from videopipe.pipeline.stage import variant_in_words

FINISHED = ("cached", "done", "resumed")


@dataclass(frozen=True)
class ReportedJob:
    """One stage in one variant of the matrix."""

    stage: str
    use: str
    variant: Mapping[str, Any]
    state: str
    seconds: float
    folder: Path  # of the result, or of the unfinished one
    inputs: Mapping[str, Sequence[str]]  # names of result folders

    @property
    def label(self) -> str:
        """The stage and its variant in the matrix."""
        variant = variant_in_words(self.variant, " ")
        return f"{self.stage} {variant}".strip()

    @property
    def finished(self) -> bool:
        """Whether it has a complete result."""
        return self.state in FINISHED

    def record(self) -> dict[str, Any]:
        """The content of `stage.json`: config, summary, seconds."""
        return read_record(self.folder / COMPLETE) or {}


@dataclass(frozen=True)
class Run:
    """`runs/<pipeline>/run.json`."""

    folder: Path
    name: str
    state: str
    command: str
    started: float
    seconds: float
    environment: Mapping[str, str]
    jobs: Sequence[ReportedJob]

    def using(self, use: str) -> list[ReportedJob]:
        """The jobs of one kind of stage."""
        return [job for job in self.jobs if job.use == use]

    def job_at(self, folder_name: str) -> ReportedJob | None:
        """The job whose result has this name."""
        return next((job for job in self.jobs if job.folder.name == folder_name), None)


def read_run(folder: Path) -> Run:
    """Read the record of a run, finished or not."""
    record = read_record(folder / "run.json")
    if not record:
        raise DataError(
            f"{folder}: no readable run.json, so this is not the folder of a run; give the folder "
            "that `videopipe run` made for the pipeline, such as runs/demo"
        )
    runs = folder.parent
    jobs = []
    for entry in record.get("jobs", []):
        result = runs / entry["folder"]
        partial = result.with_name(result.name + ".partial")
        jobs.append(
            ReportedJob(
                stage=entry["stage"],
                use=entry["use"],
                variant=entry.get("variant", {}),
                state=entry.get("state", "unknown"),
                seconds=entry.get("seconds", 0.0),
                folder=partial if partial.is_dir() and not result.is_dir() else result,
                inputs=entry.get("inputs", {}),
            )
        )
    return Run(
        folder=folder,
        name=record.get("name", folder.name),
        state=record.get("state", "unknown"),
        command=record.get("command", ""),
        started=record.get("started", 0.0),
        seconds=record.get("seconds", 0.0),
        environment=record.get("environment", {}),
        jobs=jobs,
    )
