"""`videopipe models`: list the networks with their parameters and input sizes."""

import argparse
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pretrained_2d.catalogue import NetworkEntry

SUMMARY = "list the networks that can be trained, adopted and inflated"
EXAMPLES = """  videopipe models
  videopipe models 'timm/resnet*'
  videopipe models 'torchvision/*3d*' --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """An optional pattern, and --json."""
    parser.add_argument(
        "pattern",
        metavar="PATTERN",
        nargs="?",
        help="only networks whose name matches, such as 'timm/*resnet*'",
    )
    parser.add_argument("--json", action="store_true", help="a JSON list instead of a table")


def main(args: argparse.Namespace) -> int:
    """Print the table, or what matches the pattern."""
    from pretrained_2d.catalogue import library_sizes, matching_networks, our_networks
    from videopipe.errors import VideopipeError

    entries = list(matching_networks(args.pattern) if args.pattern else our_networks())
    if args.json:
        print(json.dumps([entry._asdict() for entry in entries], indent=2))
        return 0
    if not entries:
        raise VideopipeError(
            f"no network matches {args.pattern!r}; * matches anything, and names of timm and "
            "torchvision begin with timm/ or torchvision/"
        )
    _print_table(entries)
    if not args.pattern:
        for library, count in library_sizes().items():
            print(f"{library}/<name>: {count} classifiers, see `videopipe models '{library}/*'`")
    return 0


def _print_table(entries: "list[NetworkEntry]") -> None:
    rows = [("name", "options", "axes", "parameters", "input", "")]
    for entry in entries:
        options = " ".join(f"{key}={value}" for key, value in entry.options.items())
        size = "×".join(map(str, entry.input_size))
        count = f"{entry.parameters:,}"
        rows.append((entry.name, options, str(entry.ndim), count, size, entry.summary))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in (2, 3) else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
