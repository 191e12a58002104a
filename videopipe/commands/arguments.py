"""Arguments that several commands share."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from videopipe.dataset.layouts.division import Layout
from videopipe.errors import ConfigError, VideopipeError

if TYPE_CHECKING:
    from videopipe.pipeline.jobs import Job, Pipeline


def add_old_name(parser: argparse.ArgumentParser, old: str, new: str) -> None:
    """Accept the option `old` in place of `new`, with a warning. It is not in the help text."""
    target = next(action for action in parser._actions if new in action.option_strings)

    class UseNewName(argparse.Action):
        def __call__(self, _parser: Any, namespace: Any, value: Any, _name: Any = None) -> None:
            print(f"warning: {old} is now called {new}; use the new name", file=sys.stderr)
            setattr(namespace, target.dest, value)

    parser.add_argument(
        old,
        dest=target.dest,
        action=UseNewName,
        type=target.type or str,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )


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


def add_runs_argument(parser: argparse.ArgumentParser) -> None:
    """`--runs`, the folder of results."""
    help_text = "folder of results (default: runs)"
    parser.add_argument("--runs", metavar="DIR", default="runs", help=help_text)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """`--runs`, `--until`, `--redo`, `--retry-failed`, of `run` and of `plan`."""
    add_runs_argument(parser)
    parser.add_argument("--until", metavar="STAGE", help="stop after this stage")
    parser.add_argument(
        "--redo",
        metavar="STAGE",
        action="append",
        default=[],
        help="make this stage again, and every stage that depends on it; repeatable",
    )
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="retry the videos that failed in results that are complete",
    )


def add_progress_argument(parser: Any) -> None:
    """`--progress`, of a parser or a group of one; the command line acts on it."""
    parser.add_argument(
        "--progress",
        choices=("auto", "stages", "json"),
        default="auto",
        help="auto: a bar on a terminal, lines in a log; stages: only start and outcome of "
        "each stage of a pipeline; json: one JSON object per line on stderr, for programs "
        "(default: auto)",
    )


def add_layout_arguments(parser: argparse.ArgumentParser) -> None:
    """`--layout` and `--official-split`, for labelled videos."""
    parser.add_argument(
        "--layout",
        metavar="NAME",
        choices=get_args(Layout),
        default="auto",
        help=f"layout of the data: {', '.join(get_args(Layout))} (default: auto)",
    )
    parser.add_argument(
        "--official-split",
        metavar="N",
        type=int,
        choices=(1, 2, 3),
        default=1,
        help="official split of HMDB-51 or UCF-101 (default: 1)",
    )


def check_out_folder(out: Path, source: Path, *, overwrite: bool) -> None:
    """Refuse an `--out` that would replace something, unless `--overwrite` is given."""
    if out.resolve() == source.resolve():
        raise VideopipeError(f"--out {out} is the checkpoint itself; name another folder")
    if out.is_file():
        raise VideopipeError(f"--out {out} is a file; name a folder")
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise VideopipeError(f"--out {out} is not empty; name a new folder, or add --overwrite")


def load(args: argparse.Namespace) -> "Pipeline":
    """The pipeline that the arguments name."""
    from videopipe.pipeline.jobs import find_pipeline, load_pipeline
    from videopipe.stages import STAGES

    return load_pipeline(find_pipeline(args.pipeline), STAGES, overrides=args.overrides)


def chosen_jobs(pipeline: "Pipeline", args: argparse.Namespace) -> list["Job"]:
    """The jobs up to `--until`; all of them without it."""
    from videopipe.pipeline.document.nodes import nearest

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


def name_option(error: ValueError, args: argparse.Namespace) -> str:
    """Name the option in the message of a setting: `clips is 0; …` -> `--clips is 0; …`."""
    name, _, rest = str(error).partition(" ")
    return f"--{name.replace('_', '-')} {rest}" if hasattr(args, name) else str(error)


def number_or(word: str, kind: type[int] | type[float]) -> Callable[[str], float | None]:
    """The type of an option that takes a number, or the text `word` for None."""

    def read(text: str) -> float | None:
        if text == word:
            return None
        try:
            return kind(text)
        except ValueError:
            number = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r}; expected {number} or {word}") from None

    return read
