"""The first section of a page: stages, command, configuration and its changes."""

import difflib
import time
from collections.abc import Mapping
from pathlib import Path

from videopipe.report.page import Section, Table, TextBlock, format_cell
from videopipe.report.pictures import plots
from videopipe.report.run_record import ReportedJob, Run


def overview_section(run: Run) -> Section:
    """Stages and their states, the command, versions, the configuration and its difference."""
    section = Section("overview", "Overview")
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started))
    section.text += [line for job in run.using("evaluate") if (line := _headline(job))]
    section.text.append(f"Command: {run.command}")
    all_cached = bool(run.jobs) and all(job.state == "cached" for job in run.jobs)
    took = "all results were cached" if all_cached else f"took {run.seconds:.0f} seconds"
    section.text.append(f"State: {run.state}. Started {started}, {took}.")
    for job in run.jobs:
        if not job.finished:
            section.missing.append(f"{job.label} has no result: {job.state}")
    section.tables.append(_stage_table(run))
    section.pictures.append(plots.stage_graph(_graph(run)))
    section.blocks += _configuration(run.folder)
    versions = "\n".join(f"{name} {number}" for name, number in run.environment.items())
    section.blocks.append(TextBlock("Versions", versions))
    return section


def _headline(job: ReportedJob) -> str:
    """The accuracy of an evaluation in one sentence."""
    summary = job.record().get("summary", {})
    top1, interval, videos = (summary.get(key) for key in ("top1", "interval", "videos"))
    precision = summary.get("mean_average_precision")
    if isinstance(precision, float):
        low, high = interval or (0.0, 1.0)
        return (
            f"Result of {job.label}: mean average precision {precision:.1%} over {videos} videos "
            f"(95 % interval {low:.1%} to {high:.1%})."
        )
    if not isinstance(top1, float) or not isinstance(interval, list) or len(interval) != 2:
        return ""
    low, high = interval
    return (
        f"Result of {job.label}: {top1:.1%} of {videos} videos right "
        f"(95 % interval {low:.1%} to {high:.1%})."
    )


def beside_section(runs: Mapping[str, Run]) -> Section:
    """The results of several runs in one table."""
    section = Section("runs", "Runs side by side")
    rows = []
    for name, run in runs.items():
        for job in run.using("evaluate"):
            summary = job.record().get("summary", {})
            low, high = summary.get("interval") or (None, None)
            interval = None if low is None else f"{low:.1%} to {high:.1%}"
            rows.append((name, job.label, job.state, summary.get("top1"), interval))
        if not run.using("evaluate"):
            rows.append((name, "no evaluation", run.state, None, None))
    columns = ("run", "evaluation", "state", "top-1", "95 % interval")
    section.tables.append(Table("Results", columns, rows))
    return section


def _stage_table(run: Run) -> Table:
    rows = []
    for job in run.jobs:
        record = job.record()
        summary = ", ".join(
            f"{key.replace('_', ' ')} {format_cell(value)}"
            for key, value in record.get("summary", {}).items()
            if isinstance(value, str | int | float)
        )
        seconds = record.get("seconds")
        took = None if seconds is None else round(seconds, 1)
        rows.append((job.label, job.use, job.state, took, summary, job.folder.name))
    columns = ("stage", "use", "state", "seconds", "summary", "result")
    return Table("Stages", columns, rows)


def _graph(run: Run) -> dict[str, tuple[str, list[str], str]]:
    """One box per stage; the variants of a matrix share one."""
    stage_of = {job.folder.name.removesuffix(".partial"): job.stage for job in run.jobs}
    boxes: dict[str, tuple[str, list[str], str]] = {}
    for job in run.jobs:
        inputs = [stage_of[name] for names in job.inputs.values() for name in names]
        count = sum(other.stage == job.stage for other in run.jobs)
        use = job.use if count == 1 else f"{job.use} × {count}"
        earlier = boxes.get(job.stage, (use, [], ""))[1]
        boxes[job.stage] = (use, list(dict.fromkeys(earlier + inputs)), _state(run, job))
    return boxes


def _state(run: Run, job: ReportedJob) -> str:
    states = {other.state for other in run.jobs if other.stage == job.stage}
    return states.pop() if len(states) == 1 else "partly " + sorted(states)[0]


def _configuration(folder: Path) -> list[TextBlock]:
    now, before = folder / "pipeline.yaml", folder / "previous.yaml"
    if not now.is_file():
        return []
    text = now.read_text()
    blocks = [TextBlock("Configuration, as resolved", text)]
    if before.is_file():
        lines = difflib.unified_diff(
            before.read_text().splitlines(), text.splitlines(), "previous", "now", lineterm="", n=2
        )
        blocks.append(TextBlock("Difference to the previous run", "\n".join(lines), open=True))
    return blocks
