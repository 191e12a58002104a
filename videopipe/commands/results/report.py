"""`videopipe report`: write the report page of a run."""

import argparse
from pathlib import Path

SUMMARY = "write the report page of a run, finished or not"
EXAMPLES = """\
  videopipe report runs/demo                    # writes runs/demo/report/report.html
  videopipe report runs/demo --out /tmp/page
  videopipe report runs/s4nd runs/i3d runs/s3d  # with the curves of the others
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run", type=Path, help="folder of the run, such as runs/demo")
    parser.add_argument(
        "others", metavar="OTHER", type=Path, nargs="*", help="other runs to compare with"
    )
    parser.add_argument("--out", type=Path, help="folder for the page (default: RUN/report)")


def main(args: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from videopipe.report.write import write_report

    print(write_report(args.run, args.out, args.others))
    return 0
