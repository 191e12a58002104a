"""`videopipe prune`: remove results that nothing needs."""

import argparse
import shutil
import sys
import time
from pathlib import Path

from videopipe.commands.arguments import add_runs_argument
from videopipe.errors import ConfigError

SUMMARY = "remove results that no pipeline and no running process needs, after showing them"
EXAMPLES = """  videopipe prune                          # shows what would be removed
  videopipe prune --yes                    # removes it
  videopipe prune --older-than-days 30 --yes

A pipeline needs the results of its last run, interrupted or not, and all results they were made
from. To give up a pipeline and its results, delete runs/<pipeline> first. A result that a process
makes or may read is never removed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder, the age and --yes."""
    add_runs_argument(parser)
    parser.add_argument("--yes", action="store_true", help="remove; without it only show")
    parser.add_argument(
        "--older-than-days", type=float, default=0.0, metavar="N",
        help="only results that are at least this old",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Print what is removed, or what would be; 0 also when there is nothing."""
    from videopipe.commands.results.runs import size_in_words, table
    from videopipe.pipeline.usage import leftovers, list_results, no_new_runs, remove
    from videopipe.system.progress import counted

    if not args.older_than_days >= 0:
        raise ConfigError([f"--older-than-days is {args.older_than_days:g}; expected 0 or more"])
    runs = Path(args.runs)
    latest = time.time() - 86400 * args.older_than_days
    found = [r for r in list_results(runs) if not r.needed and r.modified <= latest]
    if not found:
        print(f"{runs}: nothing to remove")
        return 0
    for line in table(found):
        print(line)
    total = size_in_words(sum(result.size_bytes for result in found))
    if not args.yes:
        print(f"{counted(len(found), 'result')}, {total}, would be removed; add --yes to do so")
        return 0
    sys.stdout.flush()
    listed = {result.folder for result in found}
    removed: list[int] = []  # sizes in bytes
    with no_new_runs(runs):
        for result in list_results(runs):  # checked again: a run may have begun since
            if result.folder not in listed:
                continue
            if not result.needed and remove(result):
                removed.append(result.size_bytes)
            else:
                print(f"kept {result.folder.name}: a process has begun to use it")
        for folder in leftovers(runs):
            shutil.rmtree(folder, ignore_errors=True)
    print(f"removed {counted(len(removed), 'result')}, {size_in_words(sum(removed))}")
    return 0
