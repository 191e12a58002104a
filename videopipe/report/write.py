"""The report of a run: every part that can be shown, and what is missing."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from pretrained_2d import atomic
from pretrained_2d.errors import PretrainedError
from videopipe.errors import VideopipeError
from videopipe.report.overview import overview_section
from videopipe.report.page import Section, write_page
from videopipe.report.results import comparison_section, health_section, inflation_section
from videopipe.report.run import ReportedJob, Run, read_run
from videopipe.report.scores import score_section
from videopipe.report.training import training_section

TRAINING = {"pretrain": "Pretraining", "finetune": "Fine-tuning"}
# What a damaged or half-written result may raise while it is read.
DAMAGE = (VideopipeError, PretrainedError, OSError, ValueError, KeyError, TypeError)


def write_report(run_folder: Path, out: Path | None = None) -> Path:
    """Write report.html, report.json and pictures/ for a run; returns the path of the page."""
    run = read_run(run_folder)
    folder = out or run_folder / "report"
    sections = list(_sections(run))
    subtitle = f"Pipeline {run.name}: {run.state}"
    page = write_page(folder, f"Report of {run.name}", subtitle, sections)
    atomic.write_text(folder / "report.json", json.dumps(_numbers(run), indent=2, default=str))
    return page


def _sections(run: Run) -> Iterator[Section]:
    yield overview_section(run)
    for job in run.using("compare"):
        yield _shown(job, "Comparison", comparison_section)
    for use, title in TRAINING.items():
        stages = dict.fromkeys(job.stage for job in run.using(use))
        for stage in stages:
            folders = {j.label: j.folder for j in run.using(use) if j.stage == stage}
            yield training_section(f"training-{stage}", f"{title}: {stage}", folders)
    for job in run.using("evaluate"):
        yield _shown(job, "Evaluation", score_section)
    for job in run.using("decode"):
        yield _shown(job, "Data", health_section)
    for job in run.using("inflate"):
        yield _shown(job, "Inflation", inflation_section)
    for job in run.using("finetune"):
        yield _shown(job, "Kernels", _atlas(run, job))


def _atlas(run: Run, job: ReportedJob) -> Callable[[str, str, Path], Section]:
    """The kernels of a fine-tuned model beside those it began with."""
    from videopipe.atlas.section import atlas_section

    began = [run.job_at(name) for name in job.inputs.get("model", ())]
    before = next((one.folder for one in began if one is not None and one.finished), None)
    return lambda name, title, folder: atlas_section(name, title, folder, before)


def _shown(job: ReportedJob, title: str, build: Callable[[str, str, Path], Section]) -> Section:
    """The section of a job, or one that says why it cannot be shown."""
    variant = "-".join(str(value) for value in job.variant.values())
    name = "-".join(filter(None, [title.lower(), job.stage, variant])).replace(" ", "-")
    heading = f"{title}: {job.label}"
    if not job.finished:
        return Section(name, heading, missing=[f"{job.label} has no result: {job.state}"])
    try:
        return build(name, heading, job.folder)
    except DAMAGE as error:
        reason = f"{type(error).__name__}: {error}"
        return Section(name, heading, missing=[f"{job.folder.name} cannot be read ({reason})"])


def _numbers(run: Run) -> dict[str, object]:
    return {
        "name": run.name,
        "state": run.state,
        "command": run.command,
        "seconds": run.seconds,
        "environment": dict(run.environment),
        "jobs": [
            {
                "stage": job.stage,
                "variant": dict(job.variant),
                "state": job.state,
                "folder": job.folder.name,
                "summary": job.record().get("summary", {}),
            }
            for job in run.jobs
        ],
    }
