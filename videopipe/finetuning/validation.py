"""Validation after each epoch, by which the best checkpoint is chosen."""

from collections.abc import Mapping, Sequence
from typing import Self

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.manifest import VideoRecord
from videopipe.evaluation.labelled import score_with
from videopipe.evaluation.score_table import measure
from videopipe.scoring.engine import Engine
from videopipe.scoring.settings import Execution, Scoring


class Validator:
    """`validator(network)` scores all validation videos; decoders are kept between calls."""

    def __init__(
        self,
        card: ModelCard,
        records: Sequence[VideoRecord],
        labels: Sequence[str],
        *,
        scoring: Scoring,
        execution: Execution,
    ) -> None:
        self.card, self.records, self.labels = card, records, labels
        self.scoring, self.execution = scoring, execution
        self._engine: Engine | None = None
        self._network: nn.Module | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._engine is not None:
            self._engine.close()

    def __call__(self, network: nn.Module) -> Mapping[str, float]:
        """Accuracy over videos, mean class accuracy and log loss; the same in every process."""
        if self._engine is None or network is not self._network:
            if self._engine is not None:
                self._engine.close()
            self._engine = Engine(network, self.card, self.scoring, self.execution)
            self._network = network
        metrics = measure(score_with(self._engine, self.card, self.records, self.labels))
        found = {"accuracy": metrics["top1"]["value"], "mean_class": metrics["mean_class"]}
        if metrics["calibration"]["log_loss"] is not None:
            found["log_loss"] = metrics["calibration"]["log_loss"]
        return found
