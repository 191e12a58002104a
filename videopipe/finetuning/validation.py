"""The number that decides which checkpoint is kept, after each epoch."""

from collections.abc import Mapping, Sequence
from typing import Self

from torch import nn

from pretrained_2d.card import ModelCard
from videopipe.data.manifest import VideoRecord
from videopipe.evaluation import measure
from videopipe.inference.engine import Engine
from videopipe.inference.settings import Execution, Scoring
from videopipe.scoring import score_with


class Validator:
    """`validator(network)` scores all validation videos; its decoders live as long as it does."""

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
