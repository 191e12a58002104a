"""Train a 2D network on images, at one resolution or several in turn, and test it at others."""

from pathlib import Path

from pretrained_2d.pretrain_config import PretrainConfig
from videopipe.pipeline.stage import Input, Inputs, Kind, Stage, Summary


def run(config: PretrainConfig, inputs: Inputs, out: Path) -> Summary:
    """Find the images, train, and measure the accuracy at each size."""
    from pretrained_2d.images.layouts import find_images
    from pretrained_2d.images.preparation import readable
    from pretrained_2d.pretraining import pretrain
    from videopipe.system.progress import STEPS, detail_line, progress
    from videopipe.system.training_bar import TrainingBar

    folder = _folder(config, inputs)
    listing = find_images(folder)
    detail_line(f"{folder}: {listing.describe()}")
    total = sum(map(len, listing.splits.values()))
    with progress("checking images", total=total, unit="images") as bar:
        splits = readable(
            listing,
            folder=folder,
            record=out / "images.json",
            max_broken=config.max_broken,
            workers=config.recipe.workers,
            on_progress=bar.advance,
        )
    with progress("training", unit=STEPS) as bar:
        return pretrain(config, listing, splits, out, on_progress=TrainingBar(bar))


def _folder(config: PretrainConfig, inputs: Inputs) -> Path:
    from videopipe.errors import DataError

    if "data" in inputs:
        return inputs["data"] / "images"
    folder = config.data or config.large_data
    if folder is None:
        raise DataError("no images to train on; set data: FOLDER, or give the input `data`")
    return folder


def in_words(summary: Summary) -> str:
    """The summary as a line of `--progress stages`."""
    reached = ""
    if "accuracy" in summary["best"]:
        accuracy, images = summary["best"]["accuracy"], summary["images"]["val"]
        reached = f", accuracy {accuracy:.1%} on {images:,} validation images"
    return f"{summary['steps']:,} steps of {summary['batch_size']} images{reached}"


STAGE = Stage(
    config=PretrainConfig,
    run=run,
    version=1,
    inputs={"data": Input((Kind.DATA,), required=False)},
    output=Kind.BACKBONE,
    distributed=True,
    outcome=in_words,
)
