"""`videopipe doctor`: is this machine ready, and what is to be done where it is not."""

import argparse

SUMMARY = "check versions, decoders, GPUs, memory and disk, each problem with its remedy"
EXAMPLES = """  videopipe doctor
  videopipe doctor --runs /data/runs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder whose disk is looked at."""
    parser.add_argument("--runs", metavar="DIR", default="runs", help="where results will lie")


def main(args: argparse.Namespace) -> int:
    """Print every finding; exit code 1 when something must be mended before videopipe works."""
    from pathlib import Path

    from videopipe.doctor import examine

    signs = {"ok": "ok      ", "note": "note    ", "problem": "PROBLEM "}
    worst = "ok"
    for finding in examine(Path(args.runs)):
        print(f"{signs[finding.state]}{finding.what}", flush=True)
        if finding.remedy:
            print(f"        -> {finding.remedy}", flush=True)
        if finding.state == "problem":
            worst = "problem"
    return int(worst == "problem")
