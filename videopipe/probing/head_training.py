"""Training a head on features, and joining it to its backbone in one checkpoint."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import read_weights, save_checkpoint
from pretrained_2d.randomness import Sample, derive_seed, seeded
from pretrained_2d.training.train import (
    Phase,
    TrainingProgress,
    TrainingResult,
    tiny_numbers_flushed,
    train,
)
from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.errors import DataError
from videopipe.finetuning.validation_split import Videos, choose_videos
from videopipe.inflation.time_axis import kernel_lengths, learned_lengths
from videopipe.models import load_model
from videopipe.probing.feature_file import Features, FeatureSet, read_features
from videopipe.probing.network import ProbedNetwork, probe_entry
from videopipe.probing.probe_config import ProbeConfig
from videopipe.probing.temporal_heads import TemporalHead

ROWS_AT_A_TIME = 256  # of validation features in memory
SMALLEST_STD = 1e-6  # of a channel that never changes
Progress = Callable[[TrainingProgress], None] | None


class FeatureItems:
    """The training data of a probe: one view of each video, a different one in each epoch."""

    def __init__(
        self, features: Features, rows: Sequence[int], labels: Sequence[int], seed: int
    ) -> None:
        self.features, self.rows, self.labels, self.seed = features, rows, labels, seed

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, sample: Sample) -> tuple[Tensor, int]:
        """Features (channels, steps) of the view that seed, epoch, item and repeat draw."""
        item, epoch, repeat = sample
        view = derive_seed(self.seed, "view", epoch, item, repeat) % self.features.shape[1]
        features = np.array(self.features[self.rows[item], view], dtype=np.float32)
        return torch.from_numpy(features).mT.contiguous(), self.labels[item]


class FeatureValidation:
    """`validation(head)`: accuracy and log loss over videos, mean logits over their views.

    A video without features counts as a mistake.
    """

    def __init__(self, features: Features, rows: Sequence[int], labels: Sequence[int], count: int):
        self.features, self.rows, self.count = features, rows, count
        self.labels = torch.tensor(labels)

    def __call__(self, head: nn.Module) -> Mapping[str, float]:
        """The same numbers in every process."""
        device = next(head.parameters()).device
        parts = []
        for first in range(0, len(self.rows), ROWS_AT_A_TIME):
            rows = np.array(self.features[self.rows[first : first + ROWS_AT_A_TIME]])
            batch = torch.from_numpy(rows).to(device).float()  # (videos, views, steps, channels)
            logits = head(batch.flatten(0, 1).mT)
            parts.append(logits.unflatten(0, batch.shape[:2]).mean(1).double().cpu())
        logits = torch.cat(parts)
        correct = int((logits.argmax(1) == self.labels).sum())
        loss = float(functional.cross_entropy(logits, self.labels))
        return {"accuracy": correct / self.count, "log_loss": loss}


@tiny_numbers_flushed()
def train_probe(
    config: ProbeConfig, features: Path, out: Path, on_progress: Progress = None
) -> dict[str, Any]:
    """Train a head on the features in `features`; leaves a video checkpoint in `out`.

    Resumes what `out` holds already. Returns a summary.
    """
    found = read_features(features)
    check_single_label(found.manifest)
    videos = choose_videos(found.manifest, config.protocol)
    backbone, parent = load_model(found.backbone)
    shape, labels = found.layout.shape, found.manifest.labels
    with seeded("probe", config.recipe.seed):
        head = TemporalHead(shape.channels, shape.steps, len(labels), config)
    card = replace(
        parent,
        ndim=3,
        labels=labels,
        num_frames=found.layout.num_frames,
        clip_seconds=found.layout.clip_seconds,
        probe=probe_entry(shape, config),
    )
    initial = kernel_lengths(head)
    result = _train(config, head, card, found, videos, out, on_progress)
    summary = {
        "head": config.head,
        "protocol": videos.protocol,
        "training_videos": len(videos.train),
        "validation_videos": len(videos.validation),
        "left_out": videos.left_out,
        "trained_parameters": sum(parameter.numel() for parameter in head.parameters()),
        "steps": result.steps,
        "seconds_per_step": result.seconds / max(result.steps, 1),
        **{f"best_{name}": best.value for name, best in result.best.items()},
    }
    if os.environ.get("RANK", "0") == "0":
        kept = TemporalHead(shape.channels, shape.steps, len(labels), config)
        chosen = out / "best" / "accuracy" if result.best else out / "last"
        kept.load_state_dict(read_weights(chosen))
        provenance = {
            "made_by": "probe",
            "parent": dict(parent.provenance),
            "method": config.head,
            "protocol": videos.protocol,
            "recipe": config.recipe.result_settings(),
            "training": summary,
            "time_axis": list(learned_lengths(initial, kernel_lengths(kept))),
        }
        network = ProbedNetwork(backbone, shape, kept)
        save_checkpoint(out, network, replace(card, provenance=provenance))
        for name in ("best", "last", "state"):  # of the head alone
            shutil.rmtree(out / name, ignore_errors=True)
    return summary


def _train(
    config: ProbeConfig,
    head: TemporalHead,
    card: ModelCard,
    found: FeatureSet,
    videos: Videos,
    out: Path,
    on_progress: Progress,
) -> TrainingResult:
    place = {record: row for row, record in enumerate(found.manifest.records)}
    items = FeatureItems(found.features, *_rows(videos.train, place), config.recipe.seed)
    standardise(head, items)
    usable = [record for record in videos.validation if record.usable]
    if videos.validation and not usable:
        raise DataError(f"none of the {len(videos.validation)} validation videos has features")
    validation = FeatureValidation(
        found.features, *_rows(usable, place), count=len(videos.validation)
    )
    return train(
        head,
        [Phase(data=items, epochs=config.recipe.epochs, normalize=Tensor.float)],
        recipe=config.recipe,
        card=card,
        out=out,
        evaluate=validation if usable else None,
        monitor=("accuracy",) if usable else (),
        on_progress=on_progress,
    )


def check_single_label(manifest: Manifest) -> None:
    """DataError for multi-label data, which heads are not trained on."""
    if manifest.multi_label:
        raise DataError(
            f"{manifest.root} has several labels per video; heads are trained on data with one "
            "label per video. Fine-tune the network (stage finetune) instead"
        )


def _rows(
    records: Sequence[VideoRecord], place: Mapping[VideoRecord, int]
) -> tuple[list[int], list[int]]:
    """Rows of the feature file, and labels."""
    labels = [record.label for record in records]
    return [place[record] for record in records], [label for label in labels if label is not None]


@torch.no_grad()
def standardise(head: TemporalHead, items: FeatureItems) -> None:
    """Set the head's mean and standard deviation per channel to those of the training features."""
    total = squares = np.zeros(items.features.shape[-1])
    for first in range(0, len(items.rows), ROWS_AT_A_TIME):
        rows = items.features[items.rows[first : first + ROWS_AT_A_TIME]].astype(np.float64)
        total = total + rows.sum((0, 1, 2))
        squares = squares + np.square(rows).sum((0, 1, 2))
    count = len(items.rows) * items.features.shape[1] * items.features.shape[2]
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0))
    head.standardise.mean.copy_(torch.from_numpy(mean))
    head.standardise.std.copy_(torch.from_numpy(np.where(std > SMALLEST_STD, std, 1.0)))
