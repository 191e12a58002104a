"""`videopipe plan`: what `run` would do, and why."""

import argparse
from pathlib import Path

from videopipe.commands.arguments import (
    add_pipeline_arguments,
    add_run_arguments,
    chosen_jobs,
    load,
)

SUMMARY = "show for each stage whether it is cached, retried, resumed or run, and why"
EXAMPLES = """  videopipe plan demo
  videopipe plan my.yaml --set finetuned.lr=1e-4
  videopipe plan my.yaml --redo clips
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add PIPELINE and the options of a run."""
    add_pipeline_arguments(parser)
    add_run_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Print one line per job: action, name, reasons, result folder."""
    from videopipe.pipeline.plan import ACTIONS, plan_jobs
    from videopipe.pipeline.results import Results

    pipeline = load(args)
    results = Results(Path(args.runs))
    plan = plan_jobs(
        chosen_jobs(pipeline, args), results, redo=args.redo, retry_failed=args.retry_failed
    )
    width = max(len(planned.job.label) for planned in plan)
    for planned in plan:
        print(f"{planned.action:<7} {planned.job.label:<{width}}  {results.folder(planned.job)}")
        for reason in planned.reasons:
            print(f"        {'':<{width}}  because {reason}")
        if planned.note:
            print(f"        {'':<{width}}  {planned.note}")
    counts = [
        f"{count} {action}"
        for action in ACTIONS
        if (count := sum(planned.action == action for planned in plan))
    ]
    print(", ".join(counts))
    return 0
