"""Train a 2D network on images: one resolution or several after each other, tested at many."""

from pathlib import Path

from pretrained_2d.pretrain_config import PretrainConfig
from videopipe.stage import Input, Inputs, Kind, Stage, Summary


def run(config: PretrainConfig, inputs: Inputs, out: Path) -> Summary:
    """Find the images, train, and say how well it does at every size."""
    from pretrained_2d.image_layouts import find_images
    from pretrained_2d.image_preparation import readable
    from pretrained_2d.pretraining import pretrain
    from videopipe.progress import progress, say
    from videopipe.training_bar import TrainingBar

    folder = _folder(config, inputs)
    listing = find_images(folder)
    say(f"{folder}: {listing.describe()}")
    total = sum(map(len, listing.splits.values()))
    with progress("reading every image once", total=total, unit="images") as bar:
        splits = readable(
            listing,
            folder=folder,
            record=out / "images.json",
            max_broken=config.max_broken,
            workers=config.recipe.workers,
            on_progress=bar.advance,
        )
    with progress("training", total=100, unit="%") as bar:
        return pretrain(config, listing, splits, out, on_progress=TrainingBar(bar))


def _folder(config: PretrainConfig, inputs: Inputs) -> Path:
    from videopipe.errors import DataError

    if "data" in inputs:
        return inputs["data"] / "images"
    folder = config.data or config.large_data
    if folder is None:
        raise DataError(
            "there are no images to train on; set data: FOLDER, or connect the input `data`"
        )
    return folder


STAGE = Stage(
    config=PretrainConfig,
    run=run,
    version=1,
    inputs={"data": Input((Kind.DATA,), required=False)},
    output=Kind.BACKBONE,
    distributed=True,
)
