"""Arguments that the pipeline commands share."""

import argparse
from typing import TYPE_CHECKING

from videopipe.errors import ConfigError

if TYPE_CHECKING:
    from videopipe.pipeline import Job, Pipeline


def add_pipeline_arguments(parser: argparse.ArgumentParser) -> None:
    """PIPELINE and `--set`."""
    parser.add_argument(
        "pipeline",
        metavar="PIPELINE",
        help="a YAML file, or the name of one that comes with videopipe (demo)",
    )
    parser.add_argument(
        "--set",
        dest="overrides",
        metavar="STAGE.KEY=VALUE",
        action="append",
        default=[],
        help="change one setting; the value is written as in YAML; '*_tuned.lr=1e-4' changes it in "
        "every stage of such a name; repeatable",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """`--runs`, `--until`, `--redo`: what `run` does and `plan` foretells."""
    parser.add_argument("--runs", metavar="DIR", default="runs", help="where results lie (runs)")
    parser.add_argument("--until", metavar="STAGE", help="stop after this stage")
    parser.add_argument(
        "--redo",
        metavar="STAGE",
        action="append",
        default=[],
        help="make this stage again, and all that depends on it; repeatable",
    )


def load(args: argparse.Namespace) -> "Pipeline":
    """The pipeline that the arguments name."""
    from videopipe.pipeline import find_pipeline, load_pipeline
    from videopipe.stages import STAGES

    return load_pipeline(find_pipeline(args.pipeline), STAGES, overrides=args.overrides)


def chosen_jobs(pipeline: "Pipeline", args: argparse.Namespace) -> list["Job"]:
    """The jobs up to `--until`; all of them without it."""
    from videopipe.nodes import nearest

    names = pipeline.stages
    options = [("--redo", name) for name in args.redo]
    options += [("--until", args.until)] if args.until else []
    problems = [
        f"{option} {name}: no stage '{name}' in pipeline '{pipeline.name}'{nearest(name, names)}"
        for option, name in options
        if name not in names
    ]
    if problems:
        raise ConfigError(problems)
    last = names.index(args.until) if args.until else len(names) - 1
    return [job for job in pipeline.jobs if names.index(job.stage) <= last]
