"""Fine-tune a checkpoint folder on the videos of a manifest."""

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.training.optimiser import ParameterGroup, parameter_groups
from pretrained_2d.training.outputs.metrics_log import read_metrics
from pretrained_2d.training.train import (
    Phase,
    TrainingProgress,
    TrainingResult,
    tiny_numbers_flushed,
    train,
)
from videopipe.dataset.clips.clip_transform import ClipTransform
from videopipe.dataset.clips.notation import describe_sampling, typical_rate
from videopipe.dataset.clips.training_clips import ClipDataset
from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.errors import DataError
from videopipe.finetuning.decoding_limit import LimitedClips, clip_errors
from videopipe.finetuning.finetune_config import FinetuneConfig
from videopipe.finetuning.finetune_recipe import ClipAugmentation
from videopipe.finetuning.head import head_parameters, with_head_for
from videopipe.finetuning.layers import (
    freeze_batch_norm,
    lay_channels_last,
    learning_rate_scale,
)
from videopipe.finetuning.regularisation import set_drop_path, set_head_dropout
from videopipe.finetuning.validation import Validator
from videopipe.finetuning.validation_split import Videos, choose_videos
from videopipe.inflation.time_axis import kernel_lengths, learned_lengths, time_parameters
from videopipe.models import check_takes_videos, load_model
from videopipe.scoring.settings import Execution, Scoring
from videopipe.system.progress import detail_line

Progress = Callable[[TrainingProgress], None] | None


@tiny_numbers_flushed()  # before the first large operation, which starts torch's threads
def finetune(
    config: FinetuneConfig, model: Path, manifest: Manifest, out: Path, on_progress: Progress = None
) -> dict[str, Any]:
    """Train the network in `model` on the videos of `manifest`; writes a checkpoint to `out`.

    Resumes an interrupted training in `out`. Returns a summary.
    """
    network, card = load_model(model)
    if card.ndim != 3:
        raise DataError(f"{model} holds a network for images; inflate it to clips first")
    check_takes_videos(card)
    videos = choose_videos(manifest, config.protocol)
    _check_multi_label(config, manifest)
    network, card, head_is_new = with_head_for(network, card, manifest.labels, config.recipe.seed)
    card = replace(
        card,
        multi_label=manifest.multi_label,
        num_frames=config.num_frames or card.num_frames,
        clip_seconds=config.clip_seconds or card.clip_seconds,
    )
    sampling = _describe_clips(card, videos)
    detail_line(f"training on clips of {sampling}")
    initial = kernel_lengths(network)
    branches = set_drop_path(network, config.drop_path)
    set_head_dropout(network, config.head_dropout)
    if config.freeze_batch_norm:
        freeze_batch_norm(network)
    lay_channels_last(network)
    groups = _groups(network, config)
    result = _train(config, network, card, manifest, videos, groups, out, on_progress)
    summary = {
        "protocol": videos.protocol,
        "training_videos": len(videos.train),
        "validation_videos": len(videos.validation),
        "left_out": videos.left_out,
        "clips": sampling,
        "head": "new" if head_is_new else "kept",
        "droppable_branches": branches,
        "steps": result.steps,
        "seconds_per_step": result.seconds / max(result.steps, 1),
        "peak_memory_bytes": _peak_memory_bytes(out),
        **{f"best_{name}": best.value for name, best in result.best.items()},
    }
    if os.environ.get("RANK", "0") == "0":
        _complete_card(out, card, initial, config, summary)
    return summary


def _describe_clips(card: ModelCard, videos: Videos) -> str:
    if card.num_frames is None or card.clip_seconds is None:
        return "unknown length"  # an error when the clips are made
    return describe_sampling(card.num_frames, card.clip_seconds, typical_rate(videos.train))


def _groups(network: nn.Module, config: FinetuneConfig) -> list[ParameterGroup]:
    scale = learning_rate_scale(
        network,
        head=head_parameters(network),
        time=time_parameters(network),
        decay=config.layer_decay,
        freeze=config.freeze,
        time_scale=config.time_lr_scale,
        freeze_patterns=config.freeze_patterns,
    )
    return parameter_groups(network, config.recipe, scale=scale)


def _train(
    config: FinetuneConfig,
    network: nn.Module,
    card: ModelCard,
    manifest: Manifest,
    videos: Videos,
    groups: list[ParameterGroup],
    out: Path,
    on_progress: Progress,
) -> TrainingResult:
    metric = "mean_average_precision" if card.multi_label else "accuracy"
    clips = training_clips(videos.train, card, config.augmentation, config.recipe.seed)
    validator = Validator(
        card,
        videos.validation,
        manifest.labels,
        scoring=Scoring(clips=config.validation_clips),
        execution=Execution(device=config.recipe.device, workers=config.decoding_workers),
        max_failed=config.max_failed,
    )
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()  # of earlier stages
    with (
        TemporaryDirectory(prefix="videopipe-clips-") as notes,
        clip_errors(Path(notes)),
        validator if videos.validation else nullcontext() as evaluate,
    ):
        phase = Phase(
            data=LimitedClips(clips, config.timeout_seconds, Path(notes)),
            epochs=config.recipe.epochs,
            normalize=card.preprocessing.normalize,
        )
        return train(
            network,
            [phase],
            recipe=config.recipe,
            card=card,
            out=out,
            evaluate=evaluate,
            objective="binary_cross_entropy" if card.multi_label else "cross_entropy",
            monitor=(metric,) if videos.validation else (),
            groups=groups,
            on_progress=on_progress,
        )


def _check_multi_label(config: FinetuneConfig, manifest: Manifest) -> None:
    if manifest.multi_label and config.recipe.mixes:
        raise DataError(
            "mixup and cutmix mix the classes of two videos, which is not supported for "
            "multi-label data; set mixup: 0 and cutmix: 0"
        )


def _complete_card(
    out: Path,
    card: ModelCard,
    initial: dict[str, tuple[float, float, float]],
    config: FinetuneConfig,
    summary: dict[str, Any],
) -> None:
    """Write the provenance and the learned lengths of the time kernels to the checkpoint."""
    kept, _ = load_model(out)
    provenance = {
        "made_by": "finetune",
        "parent": dict(card.provenance),
        "method": card.provenance.get("method"),
        "protocol": summary["protocol"],
        "recipe": config.recipe.result_settings(),
        "training": summary,
        "time_axis": list(learned_lengths(initial, kernel_lengths(kept))),
    }
    save_checkpoint(out, kept, replace(card, provenance=provenance))


def _peak_memory_bytes(out: Path) -> int | None:
    """The largest value in the log of the training."""
    noted = [record.get("memory_bytes") for record in read_metrics(out / "metrics.jsonl")]
    return max((value for value in noted if value is not None), default=None)


def training_clips(
    records: Sequence[VideoRecord], card: ModelCard, augmentation: ClipAugmentation, seed: int
) -> ClipDataset:
    """Random clips of the length and size that the card names, augmented."""
    if card.num_frames is None or card.clip_seconds is None:
        raise DataError(
            "the checkpoint has no number of frames and seconds per clip; "
            "set num_frames and clip_seconds"
        )
    size = card.preprocessing.image_size
    shortest, longest = (round(factor * size) for factor in augmentation.scale)
    transform = ClipTransform(
        image_size=size,
        short_side=(shortest, longest),
        flip_probability=augmentation.flip,
        rand_augment_layers=augmentation.rand_augment_layers,
        rand_augment_magnitude=augmentation.rand_augment_magnitude,
        rand_augment_probability=augmentation.rand_augment_probability,
        interpolation=card.preprocessing.interpolation,  # as at test time
        squash=card.preprocessing.squash,
        shuffle_frames=augmentation.shuffle_frames,
    )
    return ClipDataset(
        records,
        num_frames=card.num_frames,
        clip_seconds=card.clip_seconds,
        transform=transform,
        seed=seed,
        num_classes=None if card.labels is None else len(card.labels),
    )
