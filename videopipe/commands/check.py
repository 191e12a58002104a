"""Look at every video of a data set, say what is wrong, and write the index of it."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopipe.data.findings import Finding
    from videopipe.data.manifest import Manifest
    from videopipe.data.notation import FrameNotation

SUMMARY = "look at every video of a data set, and say what would be lost"
EXAMPLES = """\
  videopipe check hmdb51                       what is there, and what is wrong with it
  videopipe check videos --full                decode every frame
  videopipe check hmdb51 --out index           write the index; `data: index` in a decode stage or
                                               `videopipe check index` then needs no second look
  videopipe check videos --table health.csv    one row per video (.csv or .jsonl)
  videopipe check videos --clip 32x2x1         who is shorter than 32 frames, every second one
"""
LINES_PER_KIND = 10
NOTHING_LOST, SOMETHING_LOST = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "data", type=Path, help="folder of videos, list, or index of an older check"
    )
    parser.add_argument("--out", type=Path, help="folder for the index (manifest.jsonl)")
    parser.add_argument("--table", type=Path, help="file for one row per video, .csv or .jsonl")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--full", action="store_true", help="decode every frame")
    depth.add_argument("--header", action="store_true", help="decode the first frame only")
    parser.add_argument("--layout", default="auto", help="how the data lie (default: find out)")
    parser.add_argument("--split", type=int, default=1, choices=(1, 2, 3), help="official split")
    parser.add_argument(
        "--validation", default="carve", choices=("carve", "paper", "none"),
        help="where validation videos come from when the data have none",
    )  # fmt: skip
    parser.add_argument(
        "--clip-seconds", type=float, default=2.0, help="shorter videos are named (default: 2)"
    )
    parser.add_argument(
        "--clip", metavar="32x2x1", type=_notation,
        help="the same as frames x interval x clips (mmaction, SlowFast), at the videos' own rate",
    )  # fmt: skip
    parser.add_argument("-j", "--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--timeout-seconds", type=float, default=60.0, help="for one video (default: 60)"
    )


def main(args: argparse.Namespace) -> int:
    """Check, print a summary, write what was asked for; 1 when a video would be lost."""
    from videopipe.data.findings import find_all, num_lost
    from videopipe.data.indexing import Inspection, index_dataset
    from videopipe.data.layouts import LAYOUTS, Division
    from videopipe.data.manifest import write_manifest
    from videopipe.data.notation import describe_sampling, typical_rate
    from videopipe.errors import DataError

    if args.layout not in ("auto", *LAYOUTS):
        raise DataError(f"unknown layout {args.layout!r}; known: auto, {', '.join(LAYOUTS)}")
    if args.table is not None and args.table.suffix not in (".csv", ".jsonl"):
        raise DataError(f"--table {args.table}: expected a name ending in .csv or .jsonl")
    if args.workers < 1 or args.timeout_seconds <= 0:
        raise DataError("--workers must be at least 1 and --timeout-seconds above 0")
    manifest = index_dataset(
        args.data,
        layout=args.layout,
        division=Division(split=args.split, validation=args.validation),
        inspection=Inspection(
            depth="full" if args.full else "header" if args.header else "sampled",
            workers=args.workers,
            timeout_seconds=args.timeout_seconds,
        ),
        folder=args.out,
    )
    rate = typical_rate(manifest.records)
    if args.clip is not None and rate is not None:
        args.clip_seconds = args.clip.clip_seconds(rate)
    findings = find_all(manifest, args.clip_seconds)
    print_summary(manifest, findings)
    if args.clip is not None and rate is not None:
        said = describe_sampling(args.clip.clip_len, args.clip_seconds, rate, args.clip.num_clips)
        print(
            f"\na clip is {said}; in a pipeline: "
            f"num_frames: {args.clip.clip_len}, clip_seconds: {args.clip_seconds:.4g}"
        )
    if args.out is not None:
        write_manifest(args.out, manifest)
        for leftover in args.out.glob("*_inspected.jsonl"):
            leftover.unlink()
        print(f"index: {args.out}", file=sys.stderr)
    if args.table is not None:
        write_table(args.table, manifest, findings)
    return SOMETHING_LOST if num_lost(findings) else NOTHING_LOST


def _notation(text: str) -> "FrameNotation":
    from videopipe.data.notation import parse_notation

    try:
        return parse_notation(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def print_summary(manifest: "Manifest", findings: "list[Finding]") -> None:
    """What was found, how much of it, and what is wrong, a few files of each kind."""
    from videopipe.data.findings import MEANINGS, counts_of, num_lost
    from videopipe.data.listing import printable

    hours = sum(record.duration_seconds or 0.0 for record in manifest.records) / 3600
    looked_at = sum(record.status in ("ok", "partial", "failed") for record in manifest.records)
    print(f"found:   {manifest.layout}")
    print(f"videos:  {len(manifest.records)} listed, {looked_at} looked at, {hours:.2f} hours")
    print(f"classes: {len(manifest.labels)}")
    splits = ", ".join(f"{name} {count}" for name, count in manifest.counts().items())
    print(f"splits:  {splits}{' (validation on the test split)' if manifest.val_is_test else ''}")
    for kind, count in counts_of(findings).items():
        print(f"\n{kind}: {count} ({MEANINGS[kind]})")
        shown = [finding for finding in findings if finding.kind == kind][:LINES_PER_KIND]
        for finding in shown:
            line = f"{finding.path}{f': {finding.detail}' if finding.detail else ''}"
            print(f"  {printable(line)}".replace("\n", "\\n"))
        if count > len(shown):
            print(f"  … and {count - len(shown)} more; --table writes them all")
    lost = num_lost(findings)
    print(f"\n{lost} of {len(manifest.records)} videos would be lost" if lost else "\nnothing lost")


def write_table(path: Path, manifest: "Manifest", findings: "list[Finding]") -> None:
    """One row per video, with its label in words and everything found, joined by semicolons."""
    import csv
    import io
    import json
    from dataclasses import asdict

    from pretrained_2d.atomic import write_text
    from videopipe.data.listing import printable

    said: dict[str, list[str]] = {}
    for finding in findings:
        said.setdefault(finding.path, []).append(finding.kind)
    rows: list[dict[str, Any]] = []
    for record in manifest.records:
        label = "" if record.label is None else manifest.labels[record.label]
        found = "; ".join(said.get(record.path, ()))
        said_of_it = {"label": label, "findings": found, "reason": printable(record.reason)}
        rows.append(asdict(record) | {"path": printable(record.path)} | said_of_it)
    rows += [{"path": printable(extra), "findings": "extra"} for extra in manifest.extra]
    if path.suffix == ".jsonl":
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
        return
    stream = io.StringIO()
    table = csv.DictWriter(stream, list(rows[0]) if rows else ["path"], restval="")
    table.writeheader()
    table.writerows(rows)
    write_text(path, stream.getvalue())
