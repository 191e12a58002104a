"""`videopipe check`: inspect every video of a data set, report problems, write a manifest."""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from videopipe.commands.arguments import add_layout_arguments, add_old_name
from videopipe.dataset.layouts.division import Division, Validation

if TYPE_CHECKING:
    from videopipe.dataset.clips.notation import FrameNotation
    from videopipe.dataset.health import HealthFinding
    from videopipe.dataset.manifest import Manifest

SUMMARY = "inspect every video of a data set and report which cannot be used"
EXAMPLES = """\
  videopipe check hmdb51                       list classes, splits and problems
  videopipe check videos --full                decode every frame
  videopipe check hmdb51 --out index           write a manifest; with `data: index` a decode stage
                                               does not inspect the files again
  videopipe check videos --table health.csv    write one row per video (.csv or .jsonl)
  videopipe check videos --clip 32x2x1         report videos shorter than 32 frames at interval 2
"""
LINES_PER_KIND = 10
ALL_USABLE, SOME_UNUSABLE = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "data", type=Path, help="folder of videos, list, or manifest of an earlier check"
    )
    parser.add_argument("--out", type=Path, help="folder for the manifest (manifest.jsonl)")
    parser.add_argument("--table", type=Path, help="file for one row per video, .csv or .jsonl")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--full", action="store_true", help="decode every frame")
    depth.add_argument("--header", action="store_true", help="decode the first frame only")
    add_layout_arguments(parser)
    add_old_name(parser, "--split", "--official-split")
    parser.add_argument(
        "--validation", default="carve", choices=get_args(Validation),
        help="validation videos for a data set without a validation split",
    )  # fmt: skip
    parser.add_argument(
        "--frame-rate", type=float, metavar="FPS",
        help="read folders of numbered images as videos with this many frames per second",
    )  # fmt: skip
    parser.add_argument(
        "--clip-seconds",
        type=float,
        default=2.0,
        help="report videos shorter than this (default: 2)",
    )
    parser.add_argument(
        "--clip", metavar="32x2x1", type=_notation,
        help="the same as frames x interval x clips (mmaction, SlowFast), at the videos' own rate",
    )  # fmt: skip
    parser.add_argument(
        "-j", "--workers", type=int, default=os.cpu_count() or 1, help="decoding processes"
    )
    parser.add_argument(
        "--timeout-seconds",
        type=float,
        default=60.0,
        help="longest time without progress in one video (default: 60)",
    )


def main(args: argparse.Namespace) -> int:
    """Inspect, print a summary, write the requested files; 1 when a video cannot be used."""
    from videopipe.dataset.clips.notation import describe_sampling, typical_rate
    from videopipe.dataset.health import health_findings, num_lost
    from videopipe.dataset.indexing import Inspection, index_dataset
    from videopipe.dataset.manifest import write_manifest
    from videopipe.errors import DataError

    if args.table is not None and args.table.suffix not in (".csv", ".jsonl"):
        raise DataError(f"--table {args.table}: expected a name ending in .csv or .jsonl")
    if args.workers < 1 or args.timeout_seconds <= 0:
        raise DataError("--workers must be at least 1 and --timeout-seconds above 0")
    manifest = index_dataset(
        args.data,
        layout=args.layout,
        division=Division(split=args.official_split, validation=args.validation),
        inspection=Inspection(
            depth="full" if args.full else "header" if args.header else "sampled",
            workers=args.workers,
            timeout_seconds=args.timeout_seconds,
        ),
        folder=args.out,
        frame_rate=args.frame_rate,
    )
    rate = typical_rate(manifest.records)
    if args.clip is not None and rate is not None:
        args.clip_seconds = args.clip.clip_seconds(rate)
    findings = health_findings(manifest, args.clip_seconds)
    print_summary(manifest, findings)
    if args.clip is not None and rate is not None:
        sampling = describe_sampling(
            args.clip.clip_len, args.clip_seconds, rate, args.clip.num_clips
        )
        print(
            f"\na clip is {sampling}; in a pipeline: "
            f"num_frames: {args.clip.clip_len}, clip_seconds: {args.clip_seconds:.4g}"
        )
    if args.out is not None:
        write_manifest(args.out, manifest)
        for leftover in args.out.glob("*_inspected.jsonl"):
            leftover.unlink()
        print(f"manifest: {args.out}", file=sys.stderr)
    if args.table is not None:
        write_table(args.table, manifest, findings)
    return SOME_UNUSABLE if num_lost(findings) else ALL_USABLE


def _notation(text: str) -> "FrameNotation":
    from videopipe.dataset.clips.notation import parse_notation

    try:
        return parse_notation(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def print_summary(manifest: "Manifest", findings: "list[HealthFinding]") -> None:
    """Print what was found, and a few files of each kind of finding."""
    from videopipe.dataset.health import MEANINGS, count_kinds, num_lost
    from videopipe.dataset.layouts.listing import printable

    hours = sum(record.duration_seconds or 0.0 for record in manifest.records) / 3600
    inspected = sum(record.status not in ("unknown", "missing") for record in manifest.records)
    print(f"found:   {manifest.layout}")
    print(f"videos:  {len(manifest.records)} listed, {inspected} inspected, {hours:.2f} hours")
    print(f"classes: {len(manifest.labels)}")
    splits = ", ".join(f"{name} {count}" for name, count in manifest.counts().items())
    print(f"splits:  {splits}{' (validation on the test split)' if manifest.val_is_test else ''}")
    for kind, count in count_kinds(findings).items():
        print(f"\n{kind}: {count} ({MEANINGS[kind]})")
        shown = [finding for finding in findings if finding.kind == kind][:LINES_PER_KIND]
        for finding in shown:
            line = f"{finding.path}{f': {finding.detail}' if finding.detail else ''}"
            print(f"  {printable(line)}".replace("\n", "\\n"))
        if count > len(shown):
            print(f"  … and {count - len(shown)} more; --table writes them all")
    lost = num_lost(findings)
    total = len(manifest.records)
    print(f"\n{lost} of {total} videos cannot be used" if lost else "\nall videos can be used")


def write_table(path: Path, manifest: "Manifest", findings: "list[HealthFinding]") -> None:
    """One row per video, with the name of its class and its findings, joined by semicolons.

    Paths keep every byte: CSV has the bytes themselves, JSON the escapes that `json` reads back.
    """
    import csv
    import io
    import json
    from dataclasses import asdict

    from pretrained_2d.atomic import write_bytes
    from videopipe.dataset.layouts.listing import printable

    kinds: dict[str, list[str]] = {}
    for finding in findings:
        kinds.setdefault(finding.path, []).append(finding.kind)
    rows: list[dict[str, Any]] = []
    for record in manifest.records:
        row = asdict(record)
        if manifest.multi_label:
            names = [manifest.labels[number] for number in record.labels or ()]
            row["labels"] = names if path.suffix == ".jsonl" else ";".join(names)
            del row["label"]
        else:
            row["label"] = "" if record.label is None else manifest.labels[record.label]
            del row["labels"]
        found = "; ".join(kinds.get(record.path, ()))
        rows.append(row | {"findings": found, "reason": printable(record.reason)})
    rows += [{"path": extra, "findings": "extra"} for extra in manifest.extra]
    if path.suffix == ".jsonl":
        write_bytes(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return
    stream = io.StringIO()
    table = csv.DictWriter(stream, list(rows[0]) if rows else ["path"], restval="")
    table.writeheader()
    table.writerows(rows)
    write_bytes(path, stream.getvalue().encode("utf-8", "surrogateescape"))
