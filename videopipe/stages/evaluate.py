"""Score labelled videos with a video network; accuracies come with intervals."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pretrained_2d.setting import setting
from videopipe.pipeline.stage import Failure, Input, Inputs, Kind, Result, Stage, Summary
from videopipe.scoring.settings import Execution, Scoring


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """Which videos, how they become scores, and which other frame rates to try."""

    split: Literal["test", "val", "train"] = setting("test", "which videos to score")
    scoring: Scoring = setting(default_factory=Scoring, help="clips, crops, averaging")
    frame_rates: tuple[float, ...] = setting(
        (),
        "also evaluate at these rates, with the rate of the time axis set and with rate 1",
        unit="frames per second",
    )
    clip_lengths: tuple[float, ...] = setting(
        (), "clip lengths for frame_rates; empty: as in the checkpoint", unit="seconds"
    )
    max_failed: float = setting(
        0.05,
        "the stage fails when more than this fraction of the videos has no scores",
        runtime=True,
    )
    execution: Execution = setting(
        default_factory=Execution, help="device, workers, batch size", runtime=True
    )

    def __post_init__(self) -> None:
        if self.scoring.windows:
            raise ValueError("scoring.windows is for prediction; an evaluation scores whole videos")
        for name in ("frame_rates", "clip_lengths"):
            if any(value <= 0 for value in getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}, expected numbers above 0")
        if not 0 <= self.max_failed <= 1:
            raise ValueError(f"max_failed is {self.max_failed}, expected a fraction from 0 to 1")
        if self.clip_lengths and not self.frame_rates:
            raise ValueError("clip_lengths is given without frame_rates; give both")


def run(config: EvaluateConfig, inputs: Inputs, out: Path) -> Summary:
    """Write scores.parquet and metrics.json; several processes share the videos.

    Each score is in the journal as soon as it is known, so that an interrupted evaluation resumes.
    """
    from pretrained_2d.checkpoints.folder import CARD
    from videopipe.evaluation.operation import evaluate_videos
    from videopipe.finetuning.validation_split import videos_of
    from videopipe.models import load_model
    from videopipe.stages.decode import read_clips

    network, card = load_model(inputs["model"])
    manifest = read_clips(inputs.result("clips"))
    metrics = evaluate_videos(
        network,
        card,
        videos_of(manifest, config.split),
        manifest.labels,
        out,
        split=config.split,
        identity={"card": (inputs["model"] / CARD).read_text()},
        scoring=config.scoring,
        execution=config.execution,
        max_failed=config.max_failed,
        frame_rates=config.frame_rates,
        clip_lengths=config.clip_lengths,
    )
    if metrics.get("multi_label"):
        return _multi_label_summary(metrics)
    top1 = metrics["top1"]
    return {
        "top1": round(top1["value"], 6),
        "interval": [round(top1["low"], 6), round(top1["high"], 6)],
        "top5": round(metrics["top5"]["value"], 6),
        "mean_class": round(metrics["mean_class"], 6),
        "videos": metrics["videos"],
        "failed": metrics["failed"],
        "protocol": metrics["protocol"],
        "clips": metrics["sampling"],
    }


def _multi_label_summary(metrics: dict[str, Any]) -> Summary:
    entry = metrics["mean_average_precision"]
    return {
        "mean_average_precision": round(entry["value"], 6),
        "interval": [round(entry["low"], 6), round(entry["high"], 6)],
        "videos": metrics["videos"],
        "failed": metrics["failed"],
        "protocol": metrics["protocol"],
        "clips": metrics["sampling"],
    }


def check(config: EvaluateConfig, inputs: Inputs) -> None:
    """The split has videos, and the model has not been trained on them."""
    from videopipe.errors import DataError
    from videopipe.finetuning.validation_split import videos_of
    from videopipe.stages.decode import is_indexed, read_clips

    clips, model = inputs.result("clips"), inputs.result("model")
    if not is_indexed(clips):
        return
    manifest = read_clips(clips)
    try:
        videos_of(manifest, config.split)
    except DataError as error:
        raise DataError(
            f"{error}. Add {config.split} videos to the data, let stage '{clips.stage}' divide "
            "them (num_folds), or set another split"
        ) from None
    if config.split != "val" or manifest.val_is_test:
        return
    if trained := _trained_on_validation_videos(model, clips.folder):
        raise DataError(
            f"split is val, but with protocol: {trained.config.protocol} stage '{trained.stage}' "
            "trains on the validation videos too. Set split: test, or protocol: validation"
        )


def _trained_on_validation_videos(model: Result, clips: Path) -> Result | None:
    """The result among `model` and what it was made from that learned from val videos of `clips`.

    A fine-tuning may continue a probe or another fine-tuning, so all inputs are followed.
    """
    from videopipe.finetuning.finetune_config import FinetuneConfig
    from videopipe.probing.probe_config import FeaturesConfig, ProbeConfig

    if model.inputs is None:
        return None
    if isinstance(model.config, FinetuneConfig | ProbeConfig):
        is_probe = isinstance(model.config, ProbeConfig)
        reader = model.inputs.result("features") if is_probe else model
        splits = reader.config.splits if isinstance(reader.config, FeaturesConfig) else None
        read_val = reader.inputs is not None and reader.inputs["clips"] == clips
        if read_val and model.config.protocol != "validation" and "val" in (splits or ("val",)):
            return model
    sources = (name for name in ("model", "features", "backbone") if name in model.inputs)
    found = (_trained_on_validation_videos(model.inputs.result(n), clips) for n in sources)
    return next(filter(None, found), None)


def failures(folder: Path) -> list[Failure]:
    """The videos without scores, also those without scores at one of the other frame rates."""
    from videopipe.evaluation.score_table import read_metrics, read_scores

    resolutions = read_metrics(folder).get("temporal_resolution", [])
    elsewhere = {path: reason for row in resolutions for path, reason in row.get("failed", [])}
    failed = elsewhere | dict(read_scores(folder).failed)
    return [Failure(path, reason) for path, reason in failed.items()]


def keep(config: EvaluateConfig, inputs: Inputs, folder: Path, out: Path) -> None:
    """Copy the scores of a result in which videos failed; `run` then scores only those."""
    from videopipe.evaluation.operation import JOURNAL

    if (folder / JOURNAL).is_dir():
        shutil.copytree(folder / JOURNAL, out / JOURNAL, dirs_exist_ok=True)


def in_words(summary: Summary) -> str:
    """The summary as a line of `--progress stages`."""
    scored = f"{summary['videos']:,} videos, {summary['failed']:,} failed"
    for name, words in (("top1", "top-1"), ("mean_average_precision", "mean average precision")):
        if name in summary:
            return f"{scored}, {words} {summary[name]:.1%}"
    return scored


STAGE = Stage(
    config=EvaluateConfig,
    run=run,
    version=1,
    inputs={
        "model": Input((Kind.VIDEO_MODEL, Kind.BACKBONE)),
        "clips": Input((Kind.CLIPS,)),
    },
    output=Kind.SCORES,
    distributed=True,
    check=check,
    failures=failures,
    keep=keep,
    outcome=in_words,
)
