"""`videopipe predict`: any folder of videos in, one table out."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pretrained_2d.setting import settings_of
from videopipe.commands.arguments import (
    add_old_name,
    add_progress_argument,
    name_option,
    number_or,
)
from videopipe.commands.videos.timeline_options import (
    add_timeline,
    prepare_timelines,
    refuse_timeline_options,
    write_all,
)
from videopipe.errors import ConfigError
from videopipe.scoring.settings import Decoder, Execution, Scoring

if TYPE_CHECKING:
    from videopipe.prediction.request import TableRequest

    Request = TypeVar("Request", bound=TableRequest)

SUMMARY = "predict the classes of videos: files, folders or lists in, one table out, resumable"
PATHS_HELP = (
    "videos, folders, patterns, tar shards, URLs (s3://, https://, …) of these, lists (.txt, "
    ".csv, .tsv, .jsonl, .parquet, .arrow), - for paths on stdin"
)
EXAMPLES = """  videopipe predict MODEL videos/ --out predictions.parquet
  videopipe predict MODEL 'day*/*.mp4' extra.mkv --out predictions.csv --top-k 3
  videopipe predict MODEL list.txt --out scores.jsonl --scores --embeddings
  videopipe predict MODEL ranges.csv --out ranges.parquet
  videopipe predict MODEL match.mp4 --windows --stride-seconds 0.5 --out match.csv
  videopipe predict MODEL match.mp4 --out match.parquet --timeline match.vtt --timeline match.svg
  ffmpeg -i rtsp://… -f mpegts - | videopipe predict CAUSAL_MODEL - --stream --out -
  videopipe predict MODEL 's3://bucket/day*/*.mp4' shards/films-00.tar --out all.parquet
  find / -name '*.mp4' | videopipe predict MODEL - --out all.parquet --timeout-seconds 30
  accelerate launch --num_processes 8 -m videopipe predict MODEL videos/ --out all.parquet

A list has one path per line, or a column path, and start_seconds and end_seconds for ranges.
The same command resumes a run that was interrupted. During a run, finished rows can be read in
OUT.parts/. A video that cannot be decoded has a row with a status and a reason; it is predicted
again when its file has changed, or with --retry-failed.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, PATHS, --out and the options."""
    parser.add_argument("model", metavar="MODEL", help="checkpoint folder")
    parser.add_argument(
        "paths", metavar="PATHS", nargs="+", help=PATHS_HELP
    )  # fmt: skip
    add = parser.add_argument
    add("--out", "-o", required=True, metavar="FILE",
        help="ends in .parquet, .csv or .jsonl; rows are added to a table of the same model and "
             "settings")  # fmt: skip
    add_run_options(parser)
    add(
        "--stream", action="store_true",
        help="a line per frame while the video is being written: PATHS is one file, or - for a "
        "video on stdin; OUT is .jsonl or -; needs a model inflated with --no-bidirectional",
    )  # fmt: skip
    add(
        "--patience-seconds", type=float, metavar="SECONDS",
        help="with --stream: a file that has not grown for this long has ended (default: 5)",
    )  # fmt: skip

    rows = parser.add_argument_group("columns")
    rows.add_argument("--top-k", type=int, default=5, metavar="K", help="best classes (default: 5)")
    rows.add_argument("--scores", action="store_true", help="all probabilities")
    rows.add_argument("--embeddings", action="store_true", help="the input of the classifier")
    rows.add_argument("--windows", action="store_true", help="a row per window, not per video")
    rows.add_argument(
        "--stride-seconds", type=float, metavar="SECONDS",
        help="step from window to window (default: no overlap)",
    )  # fmt: skip

    add_timeline(parser)
    sampling = add_sampling(parser)
    sampling.add_argument("--average", choices=("logits", "probabilities"), default="logits")
    add_execution(parser)
    add_old_name(parser, "--stride", "--stride-seconds")
    add_old_name(parser, "--timeout", "--timeout-seconds")


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """`--overwrite`, `--retry-failed`, `--limit`, `--strict`, `--engine`."""
    add = parser.add_argument
    add("--overwrite", action="store_true", help="replace a table of another model or settings")
    add(
        "--retry-failed", action="store_true",
        help="retry the videos that have no result yet (timeout, missing disk)",
    )  # fmt: skip
    add("--limit", type=int, metavar="N", help="only the first N videos")
    add("--strict", action="store_true", help="exit 1 when a video is not ok")
    add(
        "--engine", choices=("local", "ray"), default="local",
        help="ray: on a Ray cluster in place of this machine",
    )  # fmt: skip


def add_sampling(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """How a video becomes clips."""
    sampling = parser.add_argument_group("how a video is sampled")
    sampling.add_argument(
        "--clips", type=int, metavar="N", help="clips per video, evenly spread (default: cover it)"
    )
    sampling.add_argument(
        "--num-frames", type=int, metavar="N", help="frames per clip (default: the checkpoint's)"
    )
    sampling.add_argument(
        "--clip-seconds", type=float, metavar="SECONDS",
        help="length of a clip (default: the checkpoint's)",
    )  # fmt: skip
    sampling.add_argument(
        "--frame-rate", type=float, metavar="FPS",
        help="read folders of numbered images as videos with this many frames per second",
    )  # fmt: skip
    sampling.add_argument(
        "--within-shots", action="store_true",
        help="clips and windows do not cross a cut; decodes every frame once more to find the cuts",
    )  # fmt: skip
    sampling.add_argument(
        "--crops", type=int, choices=(1, 3), default=1, help="crops per clip (default: 1)"
    )
    sampling.add_argument("--precision", choices=("fp32", "bf16", "fp16"), default="fp32")
    sampling.add_argument(
        "--decoder", choices=get_args(Decoder), default="auto",
        help="decoding backend (default: auto)",
    )  # fmt: skip
    return sampling


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Where and how the work is done."""
    speed = parser.add_argument_group("execution")
    speed.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps")
    speed.add_argument("--workers", "-j", type=int, metavar="N", help="decoding processes")
    speed.add_argument("--threads", type=int, metavar="N", help="clips at a time on a CPU")
    speed.add_argument(
        "--batch-size", "-b", type=number_or("auto", int), metavar="N",
        help="clips per batch on a GPU; auto: as many as fit, up to 64; ignored on a CPU",
    )  # fmt: skip
    speed.add_argument(
        "--timeout-seconds", type=float, default=60.0, metavar="SECONDS",
        help="longest time without a frame before decoding is stopped (default: 60)",
    )  # fmt: skip
    speed.add_argument(
        "--max-clips-per-video", type=number_or("none", int), default=100_000, metavar="N",
        help="a video with more clips gets the status too_long (default: 100000; none: no limit)",
    )  # fmt: skip
    speed.add_argument(
        "--max-seconds-per-video", type=number_or("none", float), default=7200.0, metavar="SECONDS",
        help="decoding time after which a video gets the status too_long (default: 7200; none: no "
        "limit)",
    )  # fmt: skip
    speed.add_argument("--compile", action="store_true", help="torch.compile the model (GPU)")
    add_progress_argument(speed)


def main(args: argparse.Namespace) -> int:
    """Fill the table and report the number of rows; then write the timelines."""
    if args.stream:
        return _stream(args)
    if args.patience_seconds is not None:
        raise ConfigError(["--patience-seconds works with --stream only; add --stream"])
    prepare_decoders()
    if not args.timeline:
        refuse_timeline_options(args)
        return fill_table(_request(args), args)
    settings = prepare_timelines(args)
    request = _request(args)
    return fill_table(request, args, then=lambda: write_all(args, request.out, settings))


def fill_table(
    request: "TableRequest", args: argparse.Namespace, then: Callable[[], None] | None = None
) -> int:
    """Fill the table of a request, report the number of rows; -> exit code.

    The process that completes the table calls `then`.
    """
    from videopipe.prediction.operation import predict_table
    from videopipe.prediction.table.summary import num_scored

    summary = predict_table(request, args.paths)
    if summary is None:  # another process completes the table
        return 0
    _report(str(request.out), summary)
    if then is not None:
        then()
    if not num_scored(summary):
        return 1
    return 1 if args.strict and (summary["not_ok"] or summary["problems"]) else 0


def _stream(args: argparse.Namespace) -> int:
    """Write a line per step of one video."""
    from videopipe.prediction.execution.stream_run import predict_stream

    if len(args.paths) != 1:
        raise ConfigError([f"--stream takes one video, got {len(args.paths)}: run it for each"])
    patience = 5.0 if args.patience_seconds is None else args.patience_seconds
    steps = predict_stream(
        Path(args.model), args.paths[0], args.out, top_k=args.top_k, patience_seconds=patience
    )
    print(f"{steps} steps written to {args.out}", file=sys.stderr)
    return 0 if steps else 1


def prepare_decoders() -> None:
    """Start the fork server of the decoders, so that it imports in parallel to this process."""
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(["videopipe.system.pool_worker", "videopipe.scoring.clips"])
    forkserver.ensure_running()


def _request(args: argparse.Namespace) -> "TableRequest":
    from videopipe.prediction.request import TableRequest

    if args.stride_seconds is not None and not args.windows:
        raise ConfigError(["--stride-seconds is for windows; add --windows"])
    return request_of(TableRequest, args, Path(args.out), windows=args.windows)


def request_of(
    kind: "type[Request]", args: argparse.Namespace, out: Path, *, windows: bool, **others: Any
) -> "Request":
    """A request from the options of its command; `others` are fields without an option."""
    try:
        return settings_of(
            kind,
            args,
            model=Path(args.model),
            out=out,
            scoring=settings_of(Scoring, args, windows=windows),
            execution=settings_of(Execution, args),
            **others,
        )
    except ValueError as error:
        raise ConfigError([name_option(error, args)]) from None


def _report(out: str, summary: dict[str, Any]) -> None:
    """A line or two on stderr; the path of the table on stdout."""
    from videopipe.prediction.table.summary import num_scored
    from videopipe.system.progress import counted, duration

    counts = ", ".join(f"{count} {status}" for status, count in summary["statuses"].items())
    lines = [
        f"{counted(summary['videos'], 'video')}, {counted(summary['rows'], 'row')} ({counts}); "
        f"{summary['predicted_in_this_run']} predicted in {duration(summary['seconds'])}"
    ]
    if not num_scored(summary):
        lines.append(f"no video could be scored; see the column 'error' of {out}")
    lines += [f"problem: {problem}" for problem in summary["problems"]]
    if summary["files_passed_over"]:
        kinds = ", ".join(f"{n} × {name}" for name, n in summary["files_passed_over"].items())
        lines.append(f"skipped because of their names: {kinds}")
    print("\n".join(lines), file=sys.stderr)
    print(out)
