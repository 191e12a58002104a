"""Objectives: cross entropy over classes, or binary cross entropy over attributes."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import default_collate


@dataclass(frozen=True)
class CrossEntropy:
    """One class of many. Targets: class numbers (batch,) or shares (batch, classes)."""

    label_smoothing: float = 0.0

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per sample: (batch,)."""
        return functional.cross_entropy(
            logits.float(), targets, label_smoothing=self.label_smoothing, reduction="none"
        )

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """1 or 0 per sample: (batch,). A mixed sample counts for its larger part."""
        classes = targets if targets.ndim == 1 else targets.argmax(dim=1)
        return (logits.argmax(dim=1) == classes).float()


@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Independent binary attributes. Targets: 0 or 1 (batch, attributes)."""

    label_smoothing: float = 0.0

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """One loss per sample, the mean over attributes: (batch,)."""
        smooth = self.label_smoothing
        targets = targets.float() * (1 - smooth) + 0.5 * smooth
        losses = functional.binary_cross_entropy_with_logits(
            logits.float(), targets, reduction="none"
        )  # (batch, attributes)
        return losses.mean(dim=1)

    def correct(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Share of correct attributes per sample: (batch,)."""
        return ((logits >= 0) == (targets > 0.5)).float().mean(dim=1)


OBJECTIVES: dict[str, type[CrossEntropy] | type[BinaryCrossEntropy]] = {
    "cross_entropy": CrossEntropy,
    "binary_cross_entropy": BinaryCrossEntropy,
}


def collate(items: list[tuple[Tensor, int | Tensor]]) -> tuple[Tensor, Tensor]:
    """Items (signal, target) as two tensors: (batch, channels, *axes) and (batch, …)."""
    signals = default_collate([signal for signal, _ in items])  # a worker's go to shared memory
    return signals, torch.stack([torch.as_tensor(target) for _, target in items])
