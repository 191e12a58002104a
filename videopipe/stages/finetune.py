"""Teach a video network the classes of a data set, by the paper's recipe or another."""

from pathlib import Path

from videopipe.finetuning.config import FinetuneConfig
from videopipe.stage import Input, Inputs, Kind, Stage, Summary


def run(config: FinetuneConfig, inputs: Inputs, out: Path) -> Summary:
    """Train, and leave a checkpoint; goes on where an interrupted run stopped."""
    from videopipe.finetuning.operation import finetune
    from videopipe.progress import progress
    from videopipe.training_bar import TrainingBar

    with progress("fine-tuning", total=100, unit="%") as bar:
        return finetune(config, inputs["model"], inputs["clips"], out, TrainingBar(bar))


STAGE = Stage(
    config=FinetuneConfig,
    run=run,
    version=1,
    inputs={
        "model": Input(
            (Kind.VIDEO_MODEL, Kind.BACKBONE)
        ),  # an adopted network may have time already
        "clips": Input((Kind.CLIPS,)),
    },
    output=Kind.VIDEO_MODEL,
    distributed=True,
)
