"""`videopipe predict`: any folder of videos in, one table out."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopipe.inference.table import TableRequest

SUMMARY = "predict the classes of videos: files, folders, lists in, one table out, resumable"
EXAMPLES = """  videopipe predict MODEL videos/ --out predictions.parquet
  videopipe predict MODEL 'day*/*.mp4' extra.mkv --out predictions.csv --top-k 3
  videopipe predict MODEL list.txt --out scores.jsonl --scores --embeddings
  videopipe predict MODEL ranges.csv --out ranges.parquet
  videopipe predict MODEL match.mp4 --windows --stride 0.5 --out match.csv
  find / -name '*.mp4' | videopipe predict MODEL - --out all.parquet --timeout 30
  accelerate launch --num_processes 8 -m videopipe predict MODEL videos/ --out all.parquet

A manifest has a column path, and start_seconds and end_seconds where only a range is meant.
A run that was stopped goes on when the same command is given again. While it runs, finished rows
can be read in OUT.parts/. A video that cannot be decoded is a row with a status and a reason; it is
tried again when its file has changed, or with --retry-failed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, PATHS, --out and the options."""
    parser.add_argument("model", metavar="MODEL", help="checkpoint folder")
    parser.add_argument(
        "paths", metavar="PATHS", nargs="+",
        help="videos, folders, patterns, lists (.txt), manifests (.csv, .tsv, .jsonl), - for stdin",
    )  # fmt: skip
    add = parser.add_argument
    add("--out", "-o", required=True, metavar="FILE",
        help="ending in .parquet, .csv or .jsonl; a table of the same model and settings is added "
             "to")  # fmt: skip
    add("--overwrite", action="store_true", help="replace a table of another model or settings")
    add(
        "--retry-failed", action="store_true",
        help="try again the videos that an earlier run could not score (timeout, disk away)",
    )  # fmt: skip
    add("--limit", type=int, metavar="N", help="only the first N videos")
    add("--strict", action="store_true", help="exit 1 when a video is not ok")

    rows = parser.add_argument_group("what is in a row")
    rows.add_argument("--top-k", type=int, default=5, metavar="K", help="best classes (5)")
    rows.add_argument("--scores", action="store_true", help="all probabilities")
    rows.add_argument("--embeddings", action="store_true", help="what the classifier sees")
    rows.add_argument("--windows", action="store_true", help="a row per window, not per video")
    rows.add_argument(
        "--stride", type=float, metavar="SECONDS",
        help="from window to window (default: no overlap)",
    )  # fmt: skip

    sampling = parser.add_argument_group("how a video is looked at (default: as in evaluation)")
    sampling.add_argument("--clips", type=int, metavar="N", help="clips per video, evenly spread")
    sampling.add_argument("--crops", type=int, choices=(1, 3), default=1, help="per clip (1)")
    sampling.add_argument("--average", choices=("logits", "probabilities"), default="logits")
    sampling.add_argument("--precision", choices=("fp32", "bf16", "fp16"), default="fp32")
    sampling.add_argument("--decoder", default="auto", metavar="NAME", help="backend (auto)")

    speed = parser.add_argument_group("where and how fast")
    speed.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    speed.add_argument("--workers", "-j", type=int, metavar="N", help="decoding processes")
    speed.add_argument("--threads", type=int, metavar="N", help="clips at a time on a CPU")
    speed.add_argument(
        "--batch-size", "-b", type=_number_or_auto, metavar="N",
        help="clips per batch on a GPU; auto: as many as fit, up to 64; no matter on a CPU",
    )  # fmt: skip
    speed.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS",
        help="longest silence of a decoder before its video is given up (60)",
    )  # fmt: skip
    speed.add_argument("--compile", action="store_true", help="torch.compile the model (GPU)")
    speed.add_argument("--engine", choices=("local", "ray"), default="local")


def main(args: argparse.Namespace) -> int:
    """Fill the table and say what came of it."""
    _prepare_decoders()
    from videopipe.inference.table import predict_table

    summary = predict_table(_request(args), args.paths)
    if summary is None:  # another process completes the table
        return 0
    _report(args.out, summary)
    return 1 if args.strict and (summary["not_ok"] or summary["problems"]) else 0


def _prepare_decoders() -> None:
    """Let the process that decoders are forked from do its imports while this one does its own."""
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(["videopipe.data.pool_worker", "videopipe.inference.clips"])
    forkserver.ensure_running()


def _request(args: argparse.Namespace) -> "TableRequest":
    from videopipe.errors import ConfigError
    from videopipe.inference.settings import Execution, Scoring
    from videopipe.inference.table import TableRequest

    try:
        return TableRequest(
            model=Path(args.model),
            out=Path(args.out),
            scoring=Scoring(
                clips=args.clips,
                crops=args.crops,
                average=args.average,
                windows=args.windows,
                stride_seconds=args.stride,
                precision=args.precision,
                decoder=args.decoder,
                embeddings=args.embeddings,
            ),
            execution=Execution(
                device=args.device,
                workers=args.workers,
                threads=args.threads,
                batch_size=args.batch_size,
                timeout_seconds=args.timeout,
                compile=args.compile,
            ),
            top_k=args.top_k,
            scores=args.scores,
            limit=args.limit,
            overwrite=args.overwrite,
            retry_failed=args.retry_failed,
            engine=args.engine,
        )
    except ValueError as error:
        raise ConfigError([str(error)]) from None


def _report(out: str, summary: dict[str, Any]) -> None:
    """A line or two on stderr; the path of the table on stdout."""
    from videopipe.progress import duration

    counts = ", ".join(f"{count} {status}" for status, count in summary["statuses"].items())
    lines = [
        f"{summary['videos']} videos, {summary['rows']} rows ({counts}); "
        f"{summary['predicted_in_this_run']} predicted in {duration(summary['seconds'])}"
    ]
    lines += [f"problem: {problem}" for problem in summary["problems"]]
    if summary["files_passed_over"]:
        kinds = ", ".join(f"{n} × {name}" for name, n in summary["files_passed_over"].items())
        lines.append(f"passed over because of their names: {kinds}")
    print("\n".join(lines), file=sys.stderr)
    print(out)


def _number_or_auto(text: str) -> int | None:
    return None if text == "auto" else int(text)
