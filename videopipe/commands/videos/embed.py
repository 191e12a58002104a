"""`videopipe embed`: any folder of videos in, one vector per video, window or frame out."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from videopipe.commands.videos.predict import (
    PATHS_HELP,
    add_execution,
    add_run_options,
    add_sampling,
    fill_table,
    prepare_decoders,
    request_of,
)

if TYPE_CHECKING:
    from videopipe.prediction.embedding.embedding_request import EmbeddingRequest

SUMMARY = (
    "embed videos: one vector per video, window or frame, for search and clustering, resumable"
)
EXAMPLES = """  videopipe embed MODEL videos/ --out embeddings.parquet
  videopipe embed MODEL videos/ --per window --stride-seconds 1 --out windows.parquet
  videopipe embed MODEL 's3://bucket/day1/*.mp4' --per frame --out frames.tar
  videopipe embed MODEL videos/ --layer stages.2 --dtype float32 --out arrays/

Parquet and Arrow hold each vector as a list of fixed size in the column `embedding`. A tar file is
a WebDataset shard: ID.json and ID.embedding.npy per row. A folder has ID.npy per video (in folders
of the first two digits) and index.parquet. The same command resumes a run that was interrupted.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, PATHS, --out and the options."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="checkpoint folder")
    add("paths", metavar="PATHS", nargs="+", help=PATHS_HELP)
    add("--out", "-o", required=True, metavar="OUT",
        help="a table (.parquet, .arrow, .jsonl, .csv, .lance), a shard (.tar), or a folder of "
             ".npy files (a name without suffix)")  # fmt: skip
    add_run_options(parser)

    rows = parser.add_argument_group("vectors")
    rows.add_argument(
        "--per", choices=("video", "window", "frame"), default="video",
        help="one vector per video (mean over its clips), window or frame",
    )  # fmt: skip
    rows.add_argument(
        "--layer", metavar="NAME",
        help="layer whose output is the embedding, averaged over positions (default: the input of "
             "the classifier)",
    )  # fmt: skip
    rows.add_argument("--dtype", choices=("float16", "float32"), default="float16")
    rows.add_argument(
        "--stride-seconds", type=float, metavar="SECONDS",
        help="step from window to window (default: no overlap)",
    )  # fmt: skip
    add_sampling(parser)
    add_execution(parser)


def main(args: argparse.Namespace) -> int:
    """Fill the table or folder and report the number of rows."""
    prepare_decoders()
    return fill_table(_request(args), args)


def _request(args: argparse.Namespace) -> "EmbeddingRequest":
    from videopipe.errors import ConfigError
    from videopipe.prediction.embedding.embedding_request import INDEX, EmbeddingRequest
    from videopipe.prediction.table.formats import FORMATS

    if args.stride_seconds is not None and args.per == "video":
        raise ConfigError(["--stride-seconds is for windows; add --per window"])
    out = Path(args.out)
    npy = not out.suffix
    if not npy and out.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise ConfigError(
            [f"--out is '{out}'; expected a name ending in {known}, or a folder (no suffix)"]
        )
    out = out / INDEX if npy else out
    return request_of(EmbeddingRequest, args, out, npy=npy, windows=args.per != "video")
