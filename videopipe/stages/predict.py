"""Predict the classes of unlabelled videos: one table, resumable, whatever the files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pretrained_2d.setting import setting
from videopipe.inference.settings import Execution, Scoring
from videopipe.stage import Input, Inputs, Kind, Stage, Summary

SHOWN = ("videos", "rows", "ok", "not_ok", "statuses", "problems", "videos_per_second")


@dataclass(frozen=True, kw_only=True)
class PredictConfig:
    """Which videos, what a row holds, and how the work is done."""

    videos: Path | None = setting(
        None, "file, folder, list (.txt) or manifest (.csv, .jsonl); none: unseen/ of the data"
    )
    file_format: Literal["parquet", "csv", "jsonl"] = setting("parquet", "of the table")
    top_k: int = setting(5, "best classes in a row")
    scores: bool = setting(False, "a column with all probabilities")
    limit: int | None = setting(None, "only the first so many videos")
    max_failed: int | None = setting(
        None, "the stage fails when more rows than this are not ok; none: any number may be"
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
        if self.max_failed is not None and self.max_failed < 0:
            raise ValueError(f"max_failed must be 0 or more, got {self.max_failed}")


def run(config: PredictConfig, inputs: Inputs, out: Path) -> Summary:
    """Fill predictions.parquet (or .csv, .jsonl) in `out`, going on where it was stopped."""
    from videopipe.errors import DataError
    from videopipe.inference.table import TableRequest, predict_table

    if (config.videos is None) == ("data" not in inputs):
        raise DataError(
            "predict needs either the setting 'videos' (a path) or an input 'data' (a generated "
            "data set, whose unseen/ is taken), not both and not neither"
        )
    videos = inputs["data"] / "unseen" if config.videos is None else config.videos
    request = TableRequest(
        model=inputs["model"],
        out=out / f"predictions.{config.file_format}",
        scoring=config.scoring,
        execution=config.execution,
        top_k=config.top_k,
        scores=config.scores,
        limit=config.limit,
    )
    summary = predict_table(request, [videos], wait=True)
    assert summary is not None  # every process waited for it
    failed = summary["not_ok"]
    if config.max_failed is not None and failed > config.max_failed:
        raise DataError(
            f"{failed} of {summary['rows']} rows are not ok, more than max_failed "
            f"({config.max_failed}); see the column 'error' in {request.out}"
        )
    return {name: summary[name] for name in SHOWN}


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
)
