"""Find the videos of a data set, inspect each, and write the manifest that later stages read."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pretrained_2d.setting import setting, settings_of
from videopipe.dataset.layouts.division import Division, Layout, Validation
from videopipe.pipeline.stage import Failure, Input, Inputs, Kind, Result, Stage, Summary

if TYPE_CHECKING:
    from videopipe.dataset.manifest import Manifest


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """The data set, its splits, and how much of every video is decoded."""

    data: Path | None = setting(
        None, "folder, list or manifest; or give the input `data`", names_videos=True
    )
    layout: Layout = setting("auto", "layout of the data; auto recognises and reports it")
    frame_rate: float | None = setting(
        None, "frame rate of folders of numbered images, which are then videos",
        unit="frames per second", added=True,
    )  # fmt: skip
    split: int = setting(1, "official split of HMDB-51 or UCF-101: 1, 2 or 3")
    validation: Validation = setting(
        "carve",
        "carve: part of the training videos, whole recordings at a time; "
        "paper: the test split, as the authors did; none: no validation split",
    )
    val_fraction: float = setting(0.1, "fraction of the training videos for validation: carve")
    num_folds: int | None = setting(None, "number of test sets for a data set without splits")
    fold: int = setting(0, "the fold that is the test set, from 0")
    seed: int = setting(0, "random seed for the choice of validation videos")
    depth: Literal["header", "sampled", "full"] = setting(
        "sampled", "how much of every video is decoded: the first frame, a few, all"
    )
    max_unreadable: int | None = setting(None, "fail when more videos than this cannot be used")
    cache: Literal["none", "frames"] = setting(
        "none", "frames: store every video at training size as single JPEG frames"
    )
    cache_short_side: int = setting(256, "short side of the cached frames", unit="pixels")
    workers: int = setting(2, "worker processes", runtime=True)
    timeout_seconds: float = setting(
        60.0, "longest time without progress in one video", unit="seconds", limit=True
    )

    def __post_init__(self) -> None:
        if self.split not in (1, 2, 3):
            raise ValueError(f"split must be 1, 2 or 3, got {self.split}")
        if not 0 < self.val_fraction < 1:
            raise ValueError(f"val_fraction must lie between 0 and 1, got {self.val_fraction}")
        if self.num_folds is not None and not 0 <= self.fold < self.num_folds:
            raise ValueError(f"fold must be 0 to {self.num_folds - 1}, got {self.fold}")
        if self.frame_rate is not None and self.frame_rate <= 0:
            raise ValueError(f"frame_rate must be above 0, got {self.frame_rate}")
        if self.workers < 1 or self.timeout_seconds <= 0:
            raise ValueError("workers must be at least 1 and timeout_seconds above 0")
        if self.cache_short_side < 16:
            raise ValueError(f"cache_short_side must be 16 or more, got {self.cache_short_side}")


def run(config: DecodeConfig, inputs: Inputs, out: Path) -> Summary:
    """Write manifest.jsonl and dataset.json, and frames/ with `cache: frames`."""
    from videopipe.dataset.frame_cache import cache_frames
    from videopipe.dataset.indexing import PROGRESS_FILE, Inspection, index_dataset
    from videopipe.dataset.manifest import write_manifest
    from videopipe.system.progress import detail_line, log_line

    manifest = index_dataset(
        _data_folder(config, inputs),
        layout=config.layout,
        division=settings_of(Division, config),
        inspection=settings_of(Inspection, config),
        folder=out,
        frame_rate=config.frame_rate,
    )
    detail_line(f"found {manifest.layout}: {len(manifest.records)} videos")
    for record in manifest.unusable[:20]:
        log_line(f"left out: {record.path}: {record.reason}")
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


def read_clips(clips: Result) -> "Manifest":
    """The manifest of a result of this stage, with the current paths of the videos."""
    from videopipe.dataset.manifest import RECORDS_FILE, read_manifest

    if not isinstance(clips.config, DecodeConfig) or clips.inputs is None:
        return read_manifest(clips.folder)
    data = _data_folder(clips.config, clips.inputs)
    if (data / RECORDS_FILE).is_file():  # its videos are in another folder
        return read_manifest(clips.folder)
    return read_manifest(clips.folder, root=data if data.is_dir() else data.parent)


def is_indexed(clips: Result) -> bool:
    """Whether the manifest of a result of this stage has been written."""
    from videopipe.dataset.manifest import DATASET_FILE

    return (clips.folder / DATASET_FILE).is_file()


def failures(folder: Path) -> list[Failure]:
    """The videos that are left out."""
    import os

    from videopipe.dataset.manifest import read_manifest

    manifest = read_manifest(folder)
    return [
        Failure(os.path.relpath(record.path, manifest.root), record.reason)
        for record in manifest.unusable
    ]


def keep(config: DecodeConfig, inputs: Inputs, folder: Path, out: Path) -> None:
    """Copy the records of the readable videos, and their cached frames."""
    import os
    import shutil

    from videopipe.dataset.indexing import write_known

    manifest = read_clips(Result(folder, "", config=config, inputs=inputs))
    write_known(out, config.depth, [record for record in manifest.records if record.usable])
    for frames in (folder / "frames").glob("*"):
        (out / "frames").mkdir(exist_ok=True)
        try:
            os.link(frames, out / "frames" / frames.name)
        except OSError:  # the file system has no hard links
            shutil.copyfile(frames, out / "frames" / frames.name)


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
            f"({config.max_unreadable}); first: {', '.join(lost[:3])}. Repair or remove them, or "
            f"raise max_unreadable"
        )


def in_words(summary: Summary) -> str:
    """The summary as a line of `--progress stages`."""
    lost = f"{summary['left_out']:,} of them" if summary["left_out"] else "none of them"
    return f"{summary['videos']:,} videos of {summary['classes']} classes, {lost} unreadable"


STAGE = Stage(
    config=DecodeConfig,
    run=run,
    version=1,
    output=Kind.CLIPS,
    inputs={"data": Input(kinds=(Kind.DATA,), required=False)},
    failures=failures,
    keep=keep,
    outcome=in_words,
)
