"""`videopipe runs`: list the results of a runs folder."""

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from videopipe.commands.arguments import add_runs_argument

if TYPE_CHECKING:
    from videopipe.pipeline.usage import StoredResult

SUMMARY = "list results with size, age and the pipelines that need them"
EXAMPLES = """  videopipe runs
  videopipe runs --runs /data/runs --unneeded
  videopipe runs --json

A pipeline needs the results of its last run, and all results they were made from. `videopipe prune`
removes the others.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder and the form of the list."""
    add_runs_argument(parser)
    parser.add_argument("--unneeded", action="store_true", help="only results that nothing needs")
    parser.add_argument("--json", action="store_true", help="one JSON object per result")


def main(args: argparse.Namespace) -> int:
    """Print one line per result, the newest first, and the sums."""
    from videopipe.pipeline.usage import list_results
    from videopipe.system.progress import counted

    found = list_results(Path(args.runs))
    shown = [result for result in found if not (args.unneeded and result.needed)]
    if args.json:
        for result in shown:
            print(json.dumps(as_json(result)))
        return 0
    for line in table(shown):
        print(line)
    unneeded = [result for result in found if not result.needed]
    total = size_in_words(sum(result.size_bytes for result in found))
    results = counted(len(found), "result")
    print(f"{results}, {total}; nothing needs {len(unneeded)} of them", end="")
    print(
        f", {size_in_words(sum(r.size_bytes for r in unneeded))} (videopipe prune)" * bool(unneeded)
    )
    return 0


def table(results: "list[StoredResult]") -> list[str]:
    """Aligned columns: result, kind, size, age, pipelines that need it."""
    rows = [("result", "kind", "size", "age", "needed by")]
    rows += [
        (
            result.folder.name,
            result.use,
            size_in_words(result.size_bytes),
            age_in_words(time.time() - result.modified),
            needed_by(result),
        )
        for result in results
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    name, use, size, age = widths
    return [f"{r[0]:<{name}}  {r[1]:<{use}}  {r[2]:>{size}}  {r[3]:>{age}}  {r[4]}" for r in rows]


def needed_by(result: "StoredResult") -> str:
    """The pipelines, and whether a process uses it now."""
    words = [*result.pipelines, *(["a process that runs now"] if result.in_use else [])]
    return ", ".join(words) or "nothing"


def as_json(result: "StoredResult") -> dict[str, object]:
    """The fields of `--json`."""
    return {
        "folder": str(result.folder),
        "kind": result.use,
        "complete": result.complete,
        "size_bytes": result.size_bytes,
        "modified": result.modified,
        "pipelines": list(result.pipelines),
        "in_use": result.in_use,
        "needed": result.needed,
    }


def size_in_words(size_bytes: int) -> str:
    """`512 B`, `1.5 kB`, `23 MB`."""
    size = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def age_in_words(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`, `5 days`."""
    for length, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
