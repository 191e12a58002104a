"""Accuracy and loss of a network at several resolutions."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.utils.data import DataLoader, Dataset

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.images.dataset import ResizeAndNormalize, TestImages
from pretrained_2d.training.batches import worker_context, worker_count
from pretrained_2d.training.objective import OBJECTIVES, collate


class ImageEvaluation:
    """`evaluation(network)` -> {"accuracy": …, "loss": …, "accuracy@16": …, "loss@16": …, …}.

    Images are read once and evaluated at every size with its rate. Names without a size belong to
    the base size, or to the largest if the base size is not evaluated. Processes share the images.
    """

    def __init__(
        self,
        images: TestImages,
        *,
        sizes: Sequence[int],
        preprocessing: Preprocessing,
        objective: str,
        batch_size: int,
        workers: int,
    ) -> None:
        self.sizes, self.preprocessing = tuple(sizes), preprocessing
        self.objective = OBJECTIVES[objective]()
        rank, processes = _place()
        self._loader: DataLoader[Any] = DataLoader(
            cast(Dataset[Any], images),
            sampler=range(rank, len(images), processes),
            batch_size=batch_size,
            collate_fn=collate,
            num_workers=worker_count(workers),
            multiprocessing_context=worker_context() if workers else None,
            persistent_workers=workers > 0,
            generator=torch.Generator(),
        )

    @torch.no_grad()
    def __call__(self, network: nn.Module, sizes: Sequence[int] | None = None) -> dict[str, float]:
        """Evaluate, at all sizes or some; the network must be in eval mode."""
        sizes = self.sizes if sizes is None else sizes
        device = next(network.parameters()).device
        sums = torch.zeros(len(sizes), 3, dtype=torch.float64)  # loss, correct, images
        for images, targets in self._loader:
            images, targets = images.to(device), targets.to(device)
            for row, size in zip(sums, sizes, strict=True):
                row += self._judge(network, images, targets, size).cpu()
        if _place()[1] > 1:
            sums = _sum_over_processes(sums, device)
        return self._metrics(sums, sizes)

    def _judge(self, network: nn.Module, images: Tensor, targets: Tensor, size: int) -> Tensor:
        base = self.preprocessing.image_size
        signal = ResizeAndNormalize(self.preprocessing, size)(images)
        logits = network(signal) if size == base else network(signal, base / size)
        loss = self.objective.loss(logits, targets)
        correct = self.objective.correct(logits, targets)
        return torch.stack([loss.sum(), correct.sum(), loss.new_tensor(len(loss))])

    def _metrics(self, sums: Tensor, sizes: Sequence[int]) -> dict[str, float]:
        base = self.preprocessing.image_size
        first = base if base in sizes else max(sizes)
        metrics: dict[str, float] = {}
        for size, (loss, correct, count) in zip(sizes, sums.tolist(), strict=True):
            numbers = {"accuracy": correct / count, "loss": loss / count}
            if size == first:
                metrics |= numbers | {"images": count}
            metrics |= {f"{name}@{size}": value for name, value in numbers.items()}
        return metrics


def _place() -> tuple[int, int]:
    """The rank of this process and the number of processes."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def _sum_over_processes(sums: Tensor, device: torch.device) -> Tensor:
    total = sums.to(device)
    distributed.all_reduce(total)
    return total.cpu()
