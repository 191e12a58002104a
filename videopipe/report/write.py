"""The report of a run. Parts that cannot be shown are listed with the reason."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from pretrained_2d import atomic
from pretrained_2d.errors import PretrainedError
from videopipe.errors import VideopipeError
from videopipe.report.page import Section, write_page
from videopipe.report.run_record import ReportedJob, Run, read_run
from videopipe.report.sections.evaluation import NUM_STRIPS, score_section
from videopipe.report.sections.outcomes import comparison_section, health_section, inflation_section
from videopipe.report.sections.overview import beside_section, overview_section
from videopipe.report.sections.predictions import prediction_section
from videopipe.report.sections.training import training_section

TRAINING = {"pretrain": "Pretraining", "finetune": "Fine-tuning", "probe": "Probing"}
MANY = 3  # with more variants than this, each is shown in less detail
# Errors that reading a damaged or incomplete result can raise.
DAMAGE = (VideopipeError, PretrainedError, OSError, ValueError, KeyError, TypeError)


def write_report(run_folder: Path, out: Path | None = None, others: Sequence[Path] = ()) -> Path:
    """Write report.html, report.json and pictures/ for a run; returns the path of the page.

    The learning curves and results of `others`, folders of further runs, are added to its own.
    """
    run = read_run(run_folder)
    beside = _named_apart(run, [read_run(folder) for folder in others])
    folder = out or run_folder / "report"
    sections = list(_sections(run, beside))
    subtitle = f"Pipeline {run.name}: {run.state}"
    if beside:
        subtitle += f"; compared with {', '.join(beside)}"
    page = write_page(folder, f"Report of {run.name}", subtitle, sections)
    numbers = _numbers(run) | {"tables": [_rows(section) for section in sections]}
    if beside:
        numbers["beside"] = {name: _numbers(other) for name, other in beside.items()}
    atomic.write_text(folder / "report.json", json.dumps(numbers, indent=2, default=str))
    return page


def _named_apart(run: Run, others: Sequence[Run]) -> dict[str, Run]:
    """Other runs by name, or by folder where two have the same name."""
    names = [run.name, *(other.name for other in others)]
    return {
        other.name if names.count(other.name) == 1 else str(other.folder): other for other in others
    }


def _sections(run: Run, beside: Mapping[str, Run]) -> Iterator[Section]:
    yield overview_section(run)
    if beside:
        yield beside_section({run.name: run, **beside})
    for job in run.using("compare"):
        yield _shown(job, "Comparison", comparison_section)
    scores = run.using("evaluate")
    for job in scores:
        strips = NUM_STRIPS if len(scores) <= MANY else NUM_STRIPS // 2
        yield _shown(job, "Evaluation", partial(score_section, num_strips=strips))
    for job in run.using("predict"):
        yield _shown(job, "Predictions", prediction_section)
    for use, title in TRAINING.items():
        stages = dict.fromkeys(
            job.stage for one in (run, *beside.values()) for job in one.using(use)
        )
        for stage in stages:
            folders = {j.label: j.folder for j in run.using(use) if j.stage == stage}
            for name, other in beside.items():
                theirs = [j for j in other.using(use) if j.stage == stage]
                folders |= {
                    f"{name}: {j.label}": j.folder
                    for j in theirs
                    if j.folder not in folders.values()
                }
            yield training_section(f"training-{stage}", f"{title}: {stage}", folders)
    for job in run.using("decode"):
        yield _shown(job, "Data", health_section)
    for job in run.using("inflate"):
        yield _shown(job, "Inflation", inflation_section)
    # Without a fine-tuned network, show the kernels of the image network.
    trained = run.using("finetune") or run.using("pretrain")
    for number, job in enumerate(trained):
        panels = 12 if len(trained) <= MANY else 6
        yield _shown(job, "Kernels", _atlas(run, job, bases=number == 0, panels=panels))


def _atlas(
    run: Run, job: ReportedJob, *, bases: bool, panels: int
) -> Callable[[str, str, Path], Section]:
    """The kernels of a trained model and of the model that training started from."""
    from videopipe.report.kernels.section import atlas_section

    began = [run.job_at(name) for name in job.inputs.get("model", ())]
    before = next((one.folder for one in began if one is not None and one.finished), None)
    return partial(atlas_section, before=before, bases=bases, panels=panels)


def _shown(job: ReportedJob, title: str, build: Callable[[str, str, Path], Section]) -> Section:
    """The section of a job, or one with the reason why it cannot be shown."""
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


def _rows(section: Section) -> dict[str, object]:
    """The tables of a section as JSON."""
    tables = [
        {"caption": table.caption, "columns": list(table.columns), "rows": list(table.rows)}
        for table in section.tables
    ]
    return {"section": section.title, "tables": tables}


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
