"""`videopipe kernels`: an atlas of the kernels of a checkpoint."""

import argparse
from pathlib import Path

SUMMARY = "draw an atlas of the kernels of an S4ND checkpoint"
EXAMPLES = """\
  videopipe kernels runs/finetuned-0123456789ab --out atlas
  videopipe kernels finetuned --before inflated --out atlas    # before and after training
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("checkpoint", type=Path, help="checkpoint folder")
    parser.add_argument(
        "--before", type=Path, help="checkpoint before the training, for comparison"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the page and pictures")


def main(args: argparse.Namespace) -> int:
    """Write report.html and pictures/*.svg to --out, and print the path."""
    from videopipe.report.kernels.section import atlas_section
    from videopipe.report.page import write_page

    section = atlas_section("kernels", "Kernels", args.checkpoint, args.before)
    page = write_page(args.out, f"Kernels of {args.checkpoint.name}", "", [section])
    print(page)
    return 0
