"""`videopipe evaluate`: the accuracy of a checkpoint on labelled videos, without a pipeline."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pretrained_2d.setting import settings_of
from videopipe.commands.arguments import add_layout_arguments, name_option
from videopipe.commands.videos.predict import add_execution, add_sampling
from videopipe.dataset.layouts.division import Division

if TYPE_CHECKING:
    from videopipe.dataset.manifest import Manifest, VideoRecord
    from videopipe.scoring.settings import Execution, Scoring

SUMMARY = "score labelled videos with a checkpoint: a table with intervals, and a report page"
EXAMPLES = """  videopipe evaluate MODEL hmdb51 --out evaluation
  videopipe evaluate MODEL my_videos --split all --out evaluation
  videopipe evaluate MODEL test.csv --out evaluation --all-classes
  videopipe evaluate runs/model-0123456789ab runs/clips-0123456789ab --split val --out evaluation
  accelerate launch --num_processes 8 -m videopipe evaluate MODEL hmdb51 --out evaluation

DATA is a folder of videos in any layout that `videopipe check` recognises, a list, or the folder
of a manifest. --split all takes every labelled video. OUT gets metrics.json, scores.parquet,
table.txt and report/report.html. The same command resumes an evaluation that was interrupted, and
retries the videos that could not be read.
"""
RECORD = "evaluation.json"  # identifies the evaluation in --out


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, DATA, --out and the options."""
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="checkpoint folder")
    add("data", metavar="DATA", type=Path, help="labelled videos: a folder, list or manifest")
    add("--out", "-o", type=Path, required=True, metavar="DIR", help="folder for the results")
    add("--overwrite", action="store_true", help="replace another evaluation in --out")
    add("--split", choices=("test", "val", "train", "all"), default="test",
        help="videos to score (default: test)")  # fmt: skip
    add_layout_arguments(parser)
    add("--max-failed", type=float, default=0.05, metavar="FRACTION",
        help="exit 1 when more than this fraction of the videos has no scores (default: 0.05)",
    )  # fmt: skip
    add("--all-classes", action="store_true", help="print every class, not the ten lowest")
    sampling = add_sampling(parser)
    sampling.add_argument("--average", choices=("logits", "probabilities"), default="logits")
    add_execution(parser)


def main(args: argparse.Namespace) -> int:
    """Evaluate, print the table, write the page."""
    from videopipe.system.lock import locked
    from videopipe.system.processes import connected_processes
    from videopipe.system.progress import log_line

    if args.out.is_file():
        from videopipe.errors import VideopipeError

        raise VideopipeError(f"--out {args.out} is a file; name a folder")
    if not connected_processes().first:
        return _evaluate(args)
    waiting = "waiting for {}, which writes to the same folder"
    with locked(args.out / ".lock", on_wait=lambda holder: log_line(waiting.format(holder))):
        return _evaluate(args)


def _evaluate(args: argparse.Namespace) -> int:
    from pretrained_2d.atomic import write_text
    from videopipe.evaluation.operation import evaluate_videos
    from videopipe.evaluation.score_table import read_metrics
    from videopipe.evaluation.table_text import table_text
    from videopipe.models import load_model
    from videopipe.system.processes import connected_processes
    from videopipe.system.progress import log_line

    scoring, execution = _settings(args)
    network, card = load_model(args.model)
    manifest, records = _videos(args)
    identity = _identity(args, scoring, records, manifest.labels)
    processes = connected_processes()
    done = processes.share(
        _is_complete(args, identity, _files(records)) if processes.first else None
    )
    if done:
        log_line(f"{args.out} is complete: nothing is left to do")
        metrics = read_metrics(args.out)
    else:
        metrics = evaluate_videos(
            network,
            card,
            records,
            manifest.labels,
            args.out,
            split=args.split,
            identity={"model": identity["model"]},
            scoring=scoring,
            execution=execution,
            max_failed=args.max_failed,
        )
    if not processes.first:
        return 0
    text = table_text(metrics, all_classes=args.all_classes)
    print(text, flush=True)
    if not done:
        write_text(args.out / "table.txt", f"{table_text(metrics, all_classes=True)}\n")
    page = _write_page(args, done=done)
    log_line(f"report: {page}")
    return 0


def _settings(args: argparse.Namespace) -> "tuple[Scoring, Execution]":
    from videopipe.errors import ConfigError
    from videopipe.scoring.settings import Execution, Scoring

    try:
        if not 0 <= args.max_failed <= 1:
            raise ValueError(f"--max-failed is {args.max_failed}; expected a fraction from 0 to 1")
        if args.frame_rate is not None and args.frame_rate <= 0:
            raise ValueError(f"--frame-rate is {args.frame_rate}; expected more than 0")
        return settings_of(Scoring, args), settings_of(Execution, args)
    except ValueError as error:
        raise ConfigError([name_option(error, args)]) from None


def _videos(args: argparse.Namespace) -> "tuple[Manifest, list[VideoRecord]]":
    """The data set and the videos of the split."""
    from videopipe.dataset.layouts.recognise import find_dataset
    from videopipe.errors import DataError
    from videopipe.finetuning.validation_split import labelled, videos_of

    division = Division(split=args.official_split, validation="none")
    manifest = find_dataset(args.data, args.layout, division, args.frame_rate)
    if args.split == "all":
        if not (found := labelled(manifest)):
            raise DataError(
                f"{args.data}: no video has a label ({manifest.layout}); put videos into one "
                "folder per class or give a list with a column 'label'. `videopipe predict` takes "
                "videos without labels"
            )
        return manifest, found
    try:
        return manifest, videos_of(manifest, args.split)
    except DataError as error:
        raise DataError(
            f"{error} ({manifest.layout}). Name another with --split, or take every labelled video "
            "with --split all"
        ) from None


def _identity(args: argparse.Namespace, scoring: Any, records: Any, labels: Any) -> dict[str, Any]:
    """Everything that decides the result, except the content of the videos, as JSON."""
    from pretrained_2d.checkpoints.folder import CARD
    from videopipe.pipeline.fingerprint import fingerprint
    from videopipe.system.content_id import content_id

    videos = [[r.path, r.labels or r.label, r.start_seconds, r.end_seconds] for r in records]
    return {
        "model": content_id(args.model / CARD),  # the card holds the digest of the weights
        "scoring": scoring.identity(),
        "split": args.split,
        "videos": fingerprint([list(labels), videos]),
    }


def _files(records: "list[VideoRecord]") -> str:
    """A digest of the sizes and times of the videos, by which a change is detected."""
    from videopipe.pipeline.fingerprint import fingerprint

    facts = []
    for record in records:
        try:
            status = Path(record.path).stat()
            facts.append([status.st_size, status.st_mtime_ns])
        except (OSError, ValueError):  # the video is missing
            facts.append([])
    return fingerprint(facts)


def _is_complete(args: argparse.Namespace, identity: dict[str, Any], files: str) -> bool:
    """Whether --out holds this evaluation, complete; records what it is going to hold."""
    import json

    from videopipe.errors import VideopipeError
    from videopipe.evaluation.score_table import METRICS_FILE, read_metrics
    from videopipe.pipeline.results import read_record, write_record

    before = read_record(args.out / RECORD) or {}
    same = before.get("identity") == json.loads(json.dumps(identity))
    if same and before.get("files") == files and (args.out / METRICS_FILE).is_file():
        return not read_metrics(args.out)["failed"]
    others = [path.name for path in args.out.iterdir() if path.name not in (".lock", RECORD)]
    if not same and others and not args.overwrite:
        raise VideopipeError(
            f"--out {args.out} holds "
            + ("an evaluation of another model, data or settings" if before else "other files")
            + "; name a new folder, or add --overwrite"
        )
    (args.out / METRICS_FILE).unlink(missing_ok=True)
    about = {"model": str(args.model.absolute()), "data": str(args.data.absolute())}
    write_record(args.out / RECORD, {**about, "identity": identity, "files": files})
    return False


def _write_page(args: argparse.Namespace, *, done: bool) -> Path:
    from videopipe.report.page import write_page
    from videopipe.report.sections.evaluation import score_section
    from videopipe.system.progress import log_line

    page: Path = args.out / "report" / "report.html"
    if done and page.is_file():
        return page
    log_line("writing the report")
    section = score_section("evaluation", f"Evaluation: {args.split}", args.out)
    subtitle = f"{args.model} on {args.data}"
    return write_page(page.parent, f"Evaluation of {args.model.name}", subtitle, [section])
