"""`videopipe run`: make all results of a pipeline that do not exist yet."""

import argparse
import os
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from videopipe.commands.arguments import (
    add_pipeline_arguments,
    add_progress_argument,
    add_run_arguments,
    chosen_jobs,
    load,
)

if TYPE_CHECKING:
    from videopipe.pipeline.jobs import Job
    from videopipe.pipeline.run import Outcome

SUMMARY = "run a pipeline; complete results in the runs folder are reused"
EXAMPLES = """  videopipe run demo
  videopipe run pipelines/hmdb51_s4nd.yaml --runs /data/runs
  videopipe run my.yaml --set finetuned.lr=1e-4 --set finetuned.epochs=20
  videopipe run my.yaml --until clips
  videopipe run my.yaml --redo scores
  videopipe run my.yaml --retry-failed --set clips.timeout_seconds=300
  accelerate launch --num_processes 8 -m videopipe run my.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add PIPELINE and the options of a run."""
    add_pipeline_arguments(parser)
    add_run_arguments(parser)
    add_progress_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Run the jobs, write the report, and print the result folders."""
    from videopipe.errors import StageError
    from videopipe.pipeline.run import run_jobs
    from videopipe.pipeline.run_log import RunLog
    from videopipe.pipeline.usage import registered
    from videopipe.system.json_progress import emit
    from videopipe.system.progress import duration, log_line

    pipeline = load(args)
    jobs = chosen_jobs(pipeline, args)
    runs = Path(args.runs)
    first = os.environ.get("RANK", "0") == "0"
    log = RunLog(pipeline, jobs, runs)
    if first:
        log.begin()
    names = [job.folder_name for job in jobs]

    def note(job: "Job", state: str) -> None:
        log.note(job, state)
        variant = dict(job.variant)
        emit("stage", stage=job.stage, variant=variant, state=state, folder=job.folder_name)

    try:
        with registered(runs, names) if first else nullcontext():
            outcomes = run_jobs(
                jobs, runs, redo=args.redo, retry_failed=args.retry_failed, on_state=note
            )
    except StageError:
        if first:
            write_page(log.folder)
        raise
    if not first:
        return 0
    log.finish()
    made = sum(outcome.state != "cached" for outcome in outcomes)
    page = write_page(log.folder, rewrite=bool(made))
    took = duration(sum(outcome.seconds for outcome in outcomes))
    log_line(
        f"{pipeline.name}: {made} of {len(outcomes)} results made in {took}"
        if made
        else f"{pipeline.name}: all {len(outcomes)} results were there already (cached)"
    )
    for outcome in outcomes:
        print(f"{outcome.job.label}\t{outcome.folder}")
    sys.stdout.flush()
    for line in what_next(outcomes, page, args):
        log_line(line)
    return 0


def write_page(folder: Path, *, rewrite: bool = True) -> Path | None:
    """Write the report of the run; a failure is reported and is no error."""
    from videopipe.system.progress import detail_line, log_line

    page = folder / "report" / "report.html"
    if page.is_file() and not rewrite:
        return page
    from videopipe.report.write import DAMAGE, write_report

    detail_line("writing the report")
    try:
        return write_report(folder)
    except DAMAGE as error:
        log_line(f"no report could be written: {error}")
        return None


def what_next(outcomes: "list[Outcome]", page: Path | None, args: argparse.Namespace) -> list[str]:
    """Paths to look at and commands to try, for the kinds of results of the run."""
    from videopipe.pipeline.stage import Kind

    last = {outcome.job.record.output: outcome for outcome in outcomes}
    lines = ["", *accuracies(outcomes), "Look at:"]
    if page is not None:
        lines.append(f"  {page}    the report: open it in a browser")
    if Kind.TABLE in last:
        lines.append(f"  {last[Kind.TABLE].folder / 'table.md'}    the comparison")
    if Kind.SCORES in last:
        lines.append(f"  {last[Kind.SCORES].folder}    the evaluation, number by number")
    if Kind.PREDICTIONS in last:
        lines.append(f"  {last[Kind.PREDICTIONS].folder}    the predictions, one row per video")
    lines.append(
        f"  {Path(args.runs) / '…'}    all results, each with a stage.json that describes it"
    )
    lines.append("Try next, with your own files:")
    if Kind.VIDEO_MODEL in last:
        model = last[Kind.VIDEO_MODEL].folder
        lines.append(f"  videopipe predict {model} YOUR_VIDEOS --out predictions.csv")
        lines.append("  videopipe check YOUR_VIDEOS    what is there, what cannot be read")
        lines.append(f"  videopipe init YOUR_VIDEOS --checkpoint {model} --out mine.yaml")
    else:
        lines.append(f"  videopipe plan {shlex.quote(args.pipeline)}    what would run again, why")
    return lines


def accuracies(outcomes: "list[Outcome]") -> list[str]:
    """One line for each evaluation: its accuracy, with the interval and the number of videos."""
    lines = []
    for outcome in outcomes:
        found = outcome.summary
        if "mean_average_precision" in found:
            low, high = found["interval"]
            lines.append(
                f"{outcome.job.label}: mean average precision "
                f"{found['mean_average_precision']:.1%} over {found['videos']} videos, "
                f"95 % interval {low:.1%} to {high:.1%}"
            )
        if "interval" in found and "top1" in found:
            low, high = found["interval"]
            lines.append(
                f"{outcome.job.label}: top-1 {found['top1']:.1%} of {found['videos']} videos, "
                f"95 % interval {low:.1%} to {high:.1%}"
            )
    return lines
