"""Validation after each epoch, by which the best checkpoint is chosen."""

from collections.abc import Mapping, Sequence
from typing import Self

from torch import nn

from pretrained_2d.checkpoints.card import ModelCard
from videopipe.dataset.layouts.listing import printable
from videopipe.dataset.manifest import VideoRecord
from videopipe.evaluation.labelled import check_failed, score_with
from videopipe.evaluation.multi_label import mean_average_precision
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
        max_failed: float = 1.0,
    ) -> None:
        self.card, self.records, self.labels = card, records, labels
        self.scoring, self.execution, self.max_failed = scoring, execution, max_failed
        # Counted as mistakes in every epoch alike, so they do not change which one is best.
        self._unreadable = {printable(r.path) for r in records if not r.usable}
        self._engine: Engine | None = None
        self._network: nn.Module | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._engine is not None:
            self._engine.close()

    def __call__(self, network: nn.Module) -> Mapping[str, float]:
        """Accuracy over videos, mean class accuracy and log loss; the same in every process.

        For multi-label data, the mean average precision.

        Raises:
            DataError: more than `max_failed` of the readable videos have no scores this time.
        """
        if self._engine is None or network is not self._network:
            if self._engine is not None:
                self._engine.close()
            self._engine = Engine(network, self.card, self.scoring, self.execution)
            self._network = network
        table = score_with(self._engine, self.card, self.records, self.labels)
        check_failed(table, self.max_failed, known=self._unreadable)
        if table.multi_label:
            return {"mean_average_precision": mean_average_precision(table)}
        metrics = measure(table)
        found = {"accuracy": metrics["top1"]["value"], "mean_class": metrics["mean_class"]}
        if metrics["calibration"]["log_loss"] is not None:
            found["log_loss"] = metrics["calibration"]["log_loss"]
        return found
