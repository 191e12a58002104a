"""Pretraining: images, network, phases, evaluation at every size."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import load_checkpoint
from pretrained_2d.images.dataset import ResizeAndNormalize, TestImages, TrainImages
from pretrained_2d.images.evaluation import ImageEvaluation
from pretrained_2d.images.image_transform import ImageTransform
from pretrained_2d.images.items import ImageItems, ImageListing, random_subset
from pretrained_2d.images.preparation import training_and_validation
from pretrained_2d.networks.backbones import BACKBONES, build, network_options
from pretrained_2d.pretrain_config import PretrainConfig
from pretrained_2d.randomness import derive_seed
from pretrained_2d.training.train import (
    Phase,
    TrainingProgress,
    TrainingResult,
    tiny_numbers_flushed,
    train,
)
from s4nd import S4ND


@tiny_numbers_flushed()  # before the first large operation starts torch's threads
def pretrain(
    config: PretrainConfig,
    listing: ImageListing,
    splits: Mapping[str, ImageItems],
    out: Path,
    *,
    on_progress: Callable[[TrainingProgress], None] | None = None,
) -> dict[str, Any]:
    """Train on the images of `splits` and leave a checkpoint in `out`; the numbers reached."""
    seed = config.recipe.seed
    training, validation = training_and_validation(splits, config.validation_share, seed)
    training = random_subset(training, config.max_images, seed)
    validation = random_subset(validation, config.max_test_images, seed)
    objective = config.objective
    if objective == "auto":
        objective = "binary_cross_entropy" if listing.multilabel else "cross_entropy"

    card = _card(config, listing)
    torch.manual_seed(derive_seed(seed, "weights"))
    model = build(config.architecture, **card.options)
    result = train(
        model,
        _phases(config, training, card),
        recipe=config.recipe,
        card=card,
        out=out,
        objective=objective,
        evaluate=_evaluation(config, validation, card.preprocessing, objective),
        monitor=tuple(dict.fromkeys([*config.monitor, *map(_accuracy_at, config.sizes)])),
        on_progress=on_progress,
    )
    summary = {
        **_numbers(result),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "images": {"train": len(training), "val": len(validation)},
    }
    if "test" in splits:
        test = random_subset(splits["test"], config.max_test_images, seed)
        evaluation = _evaluation(config, test, card.preprocessing, objective)
        device = next(model.parameters()).device
        summary["test"] = {
            _accuracy_at(size): _best_at(size, out, device, evaluation) for size in config.sizes
        }
        summary["images"]["test"] = len(test)
    return summary


def _accuracy_at(size: int) -> str:
    return f"accuracy@{size}"


def _card(config: PretrainConfig, listing: ImageListing) -> ModelCard:
    preprocessing = Preprocessing(
        image_size=config.image_size,
        resize=config.resize or config.image_size,
        crop_first=config.crop_first,
        mean=config.mean,
        std=config.std,
        interpolation=config.interpolation,
    )
    options = network_options(
        config.architecture, config.options, len(listing.labels), config.image_size
    )
    return ModelCard(
        architecture=config.architecture,
        options=options,
        labels=listing.labels,
        preprocessing=preprocessing,
        provenance={"method": "pretrain", "data": listing.describe()},
    )


def _phases(config: PretrainConfig, images: ImageItems, card: ModelCard) -> list[Phase]:
    transform = ImageTransform(config.augmentation, card.preprocessing)
    data = TrainImages(images, transform, config.recipe.seed)
    if not config.phases:
        size = config.train_size or config.image_size
        return [
            Phase(
                data=data,
                epochs=config.recipe.epochs,
                normalize=ResizeAndNormalize(card.preprocessing, size),
                rate=config.image_size / size,
            )
        ]
    phases = []
    for phase in config.phases:
        size = phase.size or config.image_size
        phases.append(
            Phase(
                data=data,
                epochs=phase.epochs,
                normalize=ResizeAndNormalize(card.preprocessing, size),
                rate=config.image_size / size,
                begin=partial(set_bandlimit, bandlimit=phase.bandlimit),
                card=with_bandlimit(card, phase.bandlimit),
            )
        )
    return phases


def _evaluation(
    config: PretrainConfig,
    images: ImageItems,
    preprocessing: Preprocessing,
    objective: str,
) -> ImageEvaluation:
    # Read at the largest size shown, so that nothing is enlarged.
    largest = max(*config.sizes, config.image_size)
    resize = round(preprocessing.resize * largest / preprocessing.image_size)
    reading = replace(preprocessing, image_size=largest, resize=resize)
    return ImageEvaluation(
        TestImages(images, reading.resize_and_crop),
        sizes=config.sizes,
        preprocessing=preprocessing,
        objective=objective,
        batch_size=config.test_batch_size,
        workers=config.recipe.workers,
    )


def _best_at(size: int, out: Path, device: torch.device, evaluation: ImageEvaluation) -> float:
    """Test accuracy of the network that validated best at this size."""
    network, _ = load_checkpoint(out / "best" / _accuracy_at(size))
    return evaluation(network.to(device), [size])[_accuracy_at(size)]


def _numbers(result: TrainingResult) -> dict[str, Any]:
    return {
        "best": {name: round(best.value, 6) for name, best in result.best.items()},
        "best_epoch": {name: best.epoch for name, best in result.best.items()},
        "last": {name: round(value, 6) for name, value in result.metrics.items()},
        "steps": result.steps,
        "batch_size": result.batch_size,
        "seconds": round(result.seconds, 1),
    }


def set_bandlimit(model: nn.Module, bandlimit: float | None) -> None:
    """Give every S4ND layer inside the same bandlimit on all axes."""
    for module in model.modules():
        if isinstance(module, S4ND):
            module.bandlimit = bandlimit


def with_bandlimit(card: ModelCard, bandlimit: float | None) -> ModelCard:
    """The card of a network whose bandlimit was changed by `set_bandlimit`."""
    if card.architecture not in BACKBONES:
        return card
    axis = network_options(card.architecture, {"axis": {}, **card.options}, 0, 0)["axis"]
    return replace(card, options={**card.options, "axis": {**axis, "bandlimit": bandlimit}})
