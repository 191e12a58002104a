"""Train a temporal head on features; with its backbone it is a video network like any other."""

from pathlib import Path

from videopipe.pipeline.stage import Input, Inputs, Kind, Stage, Summary
from videopipe.probing.probe_config import FeaturesConfig, ProbeConfig


def run(config: ProbeConfig, inputs: Inputs, out: Path) -> Summary:
    """Train the head, and leave a checkpoint of the whole network; an interrupted run resumes."""
    from videopipe.probing.head_training import train_probe
    from videopipe.system.progress import STEPS, progress
    from videopipe.system.training_bar import TrainingBar

    with progress("training the head", unit=STEPS) as bar:
        return train_probe(config, inputs["features"], out, TrainingBar(bar))


def check(config: ProbeConfig, inputs: Inputs) -> None:
    """There are videos to learn from, and to choose a checkpoint on."""
    from videopipe.finetuning.validation_split import choose_videos
    from videopipe.probing.head_training import check_single_label
    from videopipe.probing.views import chosen_videos
    from videopipe.stages.decode import is_indexed, read_clips

    features = inputs.result("features")
    if not isinstance(features.config, FeaturesConfig) or features.inputs is None:
        return
    if is_indexed(clips := features.inputs.result("clips")):
        manifest = chosen_videos(read_clips(clips), features.config.splits)
        check_single_label(manifest)
        choose_videos(manifest, config.protocol)


STAGE = Stage(
    config=ProbeConfig,
    run=run,
    version=1,
    inputs={"features": Input((Kind.FEATURES,))},
    output=Kind.VIDEO_MODEL,
    distributed=True,
    check=check,
)
