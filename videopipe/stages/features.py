"""Run a network once over the frames of every video and keep the features."""

from pathlib import Path

from videopipe.pipeline.stage import Failure, Input, Inputs, Kind, Stage, Summary
from videopipe.probing.probe_config import FeaturesConfig


def run(config: FeaturesConfig, inputs: Inputs, out: Path) -> Summary:
    """Write features.npy, times.npy and the manifest; an interrupted run resumes."""
    from videopipe.probing.extraction import extract_features
    from videopipe.probing.views import chosen_videos
    from videopipe.stages.decode import read_clips
    from videopipe.system.progress import progress

    manifest = chosen_videos(read_clips(inputs.result("clips")), config.splits)
    with progress("extracting features", total=len(manifest.records), unit="videos") as bar:
        return extract_features(config, inputs["model"], manifest, out, bar.advance)


def check(config: FeaturesConfig, inputs: Inputs) -> None:
    """The splits have videos."""
    from videopipe.probing.views import chosen_videos
    from videopipe.stages.decode import is_indexed, read_clips

    if is_indexed(clips := inputs.result("clips")):
        chosen_videos(read_clips(clips), config.splits)


def failures(folder: Path) -> list[Failure]:
    """The videos without features."""
    from videopipe.probing.completion import failed_videos

    return [Failure(path, reason) for path, reason in failed_videos(folder)]


def keep(config: FeaturesConfig, inputs: Inputs, folder: Path, out: Path) -> None:
    """Copy the features of a result in which videos failed; `run` then makes only the others."""
    from videopipe.probing.completion import keep_rows

    keep_rows(folder, out)


STAGE = Stage(
    config=FeaturesConfig,
    run=run,
    version=1,
    inputs={
        "model": Input((Kind.BACKBONE, Kind.VIDEO_MODEL)),
        "clips": Input((Kind.CLIPS,)),
    },
    output=Kind.FEATURES,
    distributed=True,
    check=check,
    failures=failures,
    keep=keep,
)
