"""Fine-tune a video network on a data set, with the paper's recipe or another."""

from pathlib import Path

from videopipe.finetuning.finetune_config import FinetuneConfig
from videopipe.pipeline.stage import Input, Inputs, Kind, Stage, Summary


def run(config: FinetuneConfig, inputs: Inputs, out: Path) -> Summary:
    """Train, and leave a checkpoint; an interrupted training resumes."""
    from videopipe.finetuning.operation import finetune
    from videopipe.stages.decode import read_clips
    from videopipe.system.progress import STEPS, progress
    from videopipe.system.training_bar import TrainingBar

    with progress("fine-tuning", unit=STEPS) as bar:
        clips = read_clips(inputs.result("clips"))
        return finetune(config, inputs["model"], clips, out, TrainingBar(bar))


def check(config: FinetuneConfig, inputs: Inputs) -> None:
    """There are videos to learn from, and to choose a checkpoint on."""
    from videopipe.finetuning.validation_split import choose_videos
    from videopipe.stages.decode import is_indexed, read_clips

    if is_indexed(clips := inputs.result("clips")):
        choose_videos(read_clips(clips), config.protocol)


def in_words(summary: Summary) -> str:
    """The summary as a line of `--progress stages`."""
    reached = ""
    if "best_accuracy" in summary:
        count = summary["validation_videos"]
        reached = f", accuracy {summary['best_accuracy']:.1%} on {count:,} validation videos"
    return f"{summary['steps']:,} steps on {summary['training_videos']:,} videos{reached}"


STAGE = Stage(
    config=FinetuneConfig,
    run=run,
    version=2,
    inputs={
        "model": Input(
            (Kind.VIDEO_MODEL, Kind.BACKBONE)
        ),  # an adopted network may have a time axis already
        "clips": Input((Kind.CLIPS,)),
    },
    output=Kind.VIDEO_MODEL,
    distributed=True,
    check=check,
    outcome=in_words,
)
