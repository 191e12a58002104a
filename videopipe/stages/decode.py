"""Find the videos of a data set, look at every one, and write the index that later stages read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pretrained_2d.setting import setting
from videopipe.stage import Input, Inputs, Kind, Stage, Summary

Layout = Literal[
    "auto", "hmdb51", "ucf101", "lists", "split_folders", "class_folders", "loose_videos"
]


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Which data set, how it is divided, how closely it is looked at."""

    data: Path | None = setting(None, "folder, list or manifest; or give the input `data`")
    layout: Layout = setting("auto", "how the data lie; auto finds out and says so")
    split: int = setting(1, "official split of HMDB-51 or UCF-101: 1, 2 or 3")
    validation: Literal["carve", "paper", "none"] = setting(
        "carve",
        "carve: part of the training videos, whole recordings at a time; "
        "paper: the test split, as the authors did; none",
    )
    val_fraction: float = setting(0.1, "of the training videos, with validation: carve")
    num_folds: int | None = setting(None, "test sets to divide a data set without splits into")
    fold: int = setting(0, "which of the folds is the test set, from 0")
    seed: int = setting(0, "of the choice of validation videos")
    depth: Literal["header", "sampled", "full"] = setting(
        "sampled", "how much of every video is decoded to know its health"
    )
    max_unreadable: int | None = setting(None, "stop when more videos than this are lost")
    cache: Literal["none", "frames"] = setting(
        "none", "frames: keep every video at training size, each frame by itself"
    )
    cache_short_side: int = setting(256, "of the cached frames", unit="pixels")
    workers: int = setting(2, "processes", runtime=True)
    timeout_seconds: float = setting(
        60.0, "longest time for one video", unit="seconds", runtime=True
    )

    def __post_init__(self) -> None:
        if self.split not in (1, 2, 3):
            raise ValueError(f"split must be 1, 2 or 3, got {self.split}")
        if not 0 < self.val_fraction < 1:
            raise ValueError(f"val_fraction must lie between 0 and 1, got {self.val_fraction}")
        if self.num_folds is not None and not 0 <= self.fold < self.num_folds:
            raise ValueError(f"fold must be 0 to {self.num_folds - 1}, got {self.fold}")
        if self.workers < 1 or self.timeout_seconds <= 0:
            raise ValueError("workers must be at least 1 and timeout_seconds above 0")
        if self.cache_short_side < 16:
            raise ValueError(f"cache_short_side must be 16 or more, got {self.cache_short_side}")


def run(config: DecodeConfig, inputs: Inputs, out: Path) -> Summary:
    """Write manifest.jsonl and dataset.json (and frames/, when they are to be cached)."""
    from videopipe.data.frame_cache import cache_frames
    from videopipe.data.indexing import PROGRESS_FILE, Inspection, index_dataset
    from videopipe.data.layouts import Division
    from videopipe.data.manifest import write_manifest
    from videopipe.progress import say

    division = Division(
        split=config.split,
        validation=config.validation,
        val_fraction=config.val_fraction,
        num_folds=config.num_folds,
        fold=config.fold,
        seed=config.seed,
    )
    manifest = index_dataset(
        _data_folder(config, inputs),
        layout=config.layout,
        division=division,
        inspection=Inspection(
            depth=config.depth, workers=config.workers, timeout_seconds=config.timeout_seconds
        ),
        folder=out,
    )
    say(f"found {manifest.layout}: {len(manifest.records)} videos")
    for record in manifest.unusable[:20]:
        say(f"left out: {record.path}: {record.reason}")
    _check_losses(config, [record.path for record in manifest.unusable])
    if config.cache == "frames":
        manifest = cache_frames(
            manifest,
            out / "frames",
            short_side=config.cache_short_side,
            workers=config.workers,
            timeout_seconds=config.timeout_seconds,
        )
    write_manifest(out, manifest)
    for leftover in out.glob(f"*_{PROGRESS_FILE}"):
        leftover.unlink()
    hours = sum(record.duration_seconds or 0 for record in manifest.records) / 3600
    return {
        "videos": len(manifest.records),
        "left_out": len(manifest.unusable),
        "classes": len(manifest.labels),
        "hours": round(hours, 3),
        "layout": manifest.layout,
        "splits": manifest.counts(),
    }


def _data_folder(config: DecodeConfig, inputs: Inputs) -> Path:
    from videopipe.errors import DataError

    if "data" in inputs:
        return inputs["data"] / "videos"
    if config.data is None:
        raise DataError("decode has no videos: give config `data: FOLDER` or the input `data`")
    return config.data


def _check_losses(config: DecodeConfig, lost: list[str]) -> None:
    from videopipe.errors import DataError

    if config.max_unreadable is not None and len(lost) > config.max_unreadable:
        raise DataError(
            f"{len(lost)} videos cannot be used, more than max_unreadable "
            f"({config.max_unreadable}); first: {', '.join(lost[:3])}. Mend or remove them, or "
            f"raise max_unreadable"
        )


STAGE = Stage(
    config=DecodeConfig,
    run=run,
    version=1,
    output=Kind.CLIPS,
    inputs={"data": Input(kinds=(Kind.DATA,), required=False)},
)
