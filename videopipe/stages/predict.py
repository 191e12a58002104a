"""Predict the classes of unlabelled videos: one table, resumable; bad files become rows too."""

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from pretrained_2d.setting import setting
from videopipe.pipeline.stage import Failure, Input, Inputs, Kind, Stage, Summary
from videopipe.prediction.timeline.timeline_settings import TimelineSettings
from videopipe.scoring.settings import Execution, Scoring

FileFormat = Literal["parquet", "csv", "jsonl"]
SHOWN = ("videos", "rows", "ok", "not_ok", "statuses", "problems", "videos_per_second")


@dataclass(frozen=True, kw_only=True)
class PredictConfig:
    """The videos, the columns of the table, and how videos are scored."""

    videos: Path | None = setting(
        None,
        "file, folder or list (.txt, .csv, .tsv, .jsonl); none: unseen/ of the data",
        names_videos=True,
    )
    file_format: FileFormat = setting("parquet", "format of the table")
    top_k: int = setting(5, "number of best classes in a row")
    scores: bool = setting(False, "a column with all probabilities")
    limit: int | None = setting(None, "only the first N videos")
    frame_rate: float | None = setting(
        None, "of folders of numbered images, which are then videos", unit="frames per second",
        added=True,
    )  # fmt: skip
    timeline: TimelineSettings | None = setting(
        None,
        "merge windows into intervals, timeline.json and strips in the report; {}: with the "
        "defaults; turns on scoring.windows, with a step of half a clip, and scores",
        added=True,
    )
    max_failed: int | None = setting(
        None, "fail when more rows than this are not ok; none: no limit"
    )
    scoring: Scoring = setting(default_factory=Scoring, help="clips, windows, averaging")
    execution: Execution = setting(
        default_factory=Execution, help="device, workers, batch size", runtime=True
    )

    def __post_init__(self) -> None:
        for name in ("top_k", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be 1 or more, got {value}")
        if self.timeline is not None and self.scoring.clips is not None:
            raise ValueError("timeline needs windows; leave scoring.clips out")
        if self.max_failed is not None and self.max_failed < 0:
            raise ValueError(f"max_failed must be 0 or more, got {self.max_failed}")


def run(config: PredictConfig, inputs: Inputs, out: Path) -> Summary:
    """Fill predictions.parquet (or .csv, .jsonl) in `out`; an interrupted run resumes."""
    from pretrained_2d.checkpoints.folder import read_card
    from videopipe.errors import DataError
    from videopipe.prediction.operation import predict_table
    from videopipe.prediction.request import TableRequest
    from videopipe.prediction.table.summary import num_scored
    from videopipe.prediction.timeline.timeline_files import write_timelines
    from videopipe.prediction.timeline.timeline_table import read_timelines

    if (config.videos is None) == ("data" not in inputs):
        raise DataError(
            "predict needs either the setting 'videos' (a path) or an input 'data' (a generated "
            "data set, whose unseen/ is taken), and not both"
        )
    videos = inputs["data"] / "unseen" if config.videos is None else config.videos
    clip_seconds = config.scoring.clip_shape(read_card(inputs["model"]))[1]
    scoring = config.scoring
    if config.timeline is not None:
        stride_seconds = scoring.stride_seconds or clip_seconds / 2
        scoring = replace(scoring, windows=True, stride_seconds=stride_seconds)
    request = TableRequest(
        model=inputs["model"],
        out=out / f"predictions.{config.file_format}",
        scoring=scoring,
        execution=config.execution,
        top_k=config.top_k,
        scores=config.scores or config.timeline is not None,
        limit=config.limit,
        frame_rate=config.frame_rate,
        retry_failed=True,  # of an earlier attempt that was interrupted or had too many failures
    )
    summary = predict_table(request, [videos], wait=True)
    assert summary is not None  # every process waited for it
    failed = summary["not_ok"]
    if failed and not num_scored(summary):
        raise DataError(f"no video could be scored; see the column 'error' in {request.out}")
    if config.max_failed is not None and failed > config.max_failed:
        raise DataError(
            f"{failed} of {summary['rows']} rows are not ok, more than max_failed "
            f"({config.max_failed}); see the column 'error' in {request.out}"
        )
    if config.timeline is not None and os.environ.get("RANK", "0") == "0":
        settings = config.timeline.for_clips(clip_seconds)
        labels = read_card(inputs["model"]).labels
        timelines = read_timelines(request.out, labels, settings, within_shots=scoring.within_shots)
        write_timelines(out / "timeline.json", timelines, settings, one_video=False)
    return {name: summary[name] for name in SHOWN}


def failures(folder: Path) -> list[Failure]:
    """The rows without scores."""
    from videopipe.prediction.table.completed_rows import read_failures

    return [Failure(*pair) for table in _tables(folder) for pair in read_failures(table)]


def keep(config: PredictConfig, inputs: Inputs, folder: Path, out: Path) -> None:
    """Copy the table; `run` then predicts only the videos without scores."""
    for table in _tables(folder):
        for name in (table.name, f"{table.name}.summary.json"):
            shutil.copy2(folder / name, out / name)


def _tables(folder: Path) -> list[Path]:
    names = [f"predictions.{suffix}" for suffix in get_args(FileFormat)]
    return [folder / name for name in names if (folder / name).is_file()]


def in_words(summary: Summary) -> str:
    """The summary as a line of `--progress stages`."""
    return (
        f"{summary['rows']:,} rows for {summary['videos']:,} videos, {summary['not_ok']:,} failed"
    )


STAGE = Stage(
    config=PredictConfig,
    run=run,
    version=1,
    output=Kind.PREDICTIONS,
    inputs={
        "model": Input((Kind.VIDEO_MODEL, Kind.BACKBONE)),
        "data": Input((Kind.DATA,), required=False),
    },
    distributed=True,
    failures=failures,
    keep=keep,
    outcome=in_words,
)
