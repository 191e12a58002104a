"""Score labelled videos with a video network: every number with its interval, every video kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pretrained_2d.setting import setting
from videopipe.inference.settings import Execution, Scoring
from videopipe.stage import Input, Inputs, Kind, Stage, Summary


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """Which videos, how they become scores, and which other frame rates to try."""

    split: Literal["test", "val", "train"] = setting("test", "which videos to score")
    scoring: Scoring = setting(default_factory=Scoring, help="clips, crops, averaging")
    frame_rates: tuple[float, ...] = setting(
        (),
        "also evaluate at these rates, with the time axis told so and without",
        unit="frames per second",
    )
    clip_lengths: tuple[float, ...] = setting(
        (), "the clip lengths for frame_rates; the model's own when not given", unit="seconds"
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
        if self.clip_lengths and not self.frame_rates:
            raise ValueError("clip_lengths is given without frame_rates; name both")


def run(config: EvaluateConfig, inputs: Inputs, out: Path) -> Summary:
    """Write scores.parquet and metrics.json."""
    from videopipe.data.manifest import read_manifest
    from videopipe.data.notation import describe_sampling, typical_rate
    from videopipe.evaluation import measure, write_evaluation
    from videopipe.evaluation_context import describe_model, describe_protocol
    from videopipe.finetuning.splits import videos_of
    from videopipe.models import load_model
    from videopipe.progress import progress, say
    from videopipe.scoring import score_records
    from videopipe.temporal_resolution import resolution_table

    network, card = load_model(inputs["model"])
    manifest = read_manifest(inputs["clips"])
    records = videos_of(manifest, config.split)
    sampling = describe_sampling(
        *config.scoring.clip_shape(card), typical_rate(records), config.scoring.clips or 1
    )
    how_many = "evenly spread" if config.scoring.clips else "as many as cover each video"
    sampling = f"{sampling}, {how_many}"
    say(f"evaluating on clips of {sampling}")
    with progress("evaluating", total=len(records), unit="videos") as bar:
        table = score_records(
            network,
            card,
            records,
            manifest.labels,
            scoring=config.scoring,
            execution=config.execution,
            on_video=bar.advance,
        )
    resolutions = resolution_table(
        network,
        card,
        records,
        manifest.labels,
        frame_rates=config.frame_rates,
        clip_lengths=config.clip_lengths,
        scoring=config.scoring,
        execution=config.execution,
    )
    metrics = {
        **measure(table),
        **describe_model(network, card),
        **describe_protocol(card, config.split),
        "split": config.split,
        "sampling": sampling,
        "average": config.scoring.average,
        "crops": config.scoring.crops,
        "temporal_resolution": resolutions,
    }
    write_evaluation(out, table, metrics)
    top1 = metrics["top1"]
    return {
        "top1": round(top1["value"], 4),
        "interval": [round(top1["low"], 4), round(top1["high"], 4)],
        "top5": round(metrics["top5"]["value"], 4),
        "mean_class": round(metrics["mean_class"], 4),
        "videos": metrics["videos"],
        "failed": metrics["failed"],
        "protocol": metrics["protocol"],
        "clips": sampling,
    }


STAGE = Stage(
    config=EvaluateConfig,
    run=run,
    version=1,
    inputs={
        "model": Input((Kind.VIDEO_MODEL, Kind.BACKBONE)),
        "clips": Input((Kind.CLIPS,)),
    },
    output=Kind.SCORES,
)
