"""`videopipe validate`: report all problems of pipeline files."""

import argparse

from videopipe.errors import ConfigError

SUMMARY = "check pipeline files and report every problem, with its line and column"
EXAMPLES = """  videopipe validate my.yaml
  videopipe validate --without-data pipelines/*.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="pipeline files, or their names")
    parser.add_argument(
        "--without-data",
        action="store_true",
        help="do not check that paths exist and that environment variables in them are set",
    )


def main(args: argparse.Namespace) -> int:
    """Print one line per valid file; raise the problems of all others together."""
    from videopipe.pipeline.jobs import find_pipeline, load_pipeline
    from videopipe.stages import STAGES

    problems: list[str] = []
    for name in args.files:
        try:
            path = find_pipeline(name)
            pipeline = load_pipeline(path, STAGES, check_paths=not args.without_data)
        except ConfigError as error:
            problems += error.problems
        else:
            print(f"{name}: ok, {len(pipeline.stages)} stages, {len(pipeline.jobs)} results")
    if problems:
        raise ConfigError(problems)
    return 0
