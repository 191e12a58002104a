"""Which networks are kept: the best so far by each metric, losses the lower the better."""

import pytest

from pretrained_2d.errors import TrainingError
from pretrained_2d.training.outputs.best import improved
from pretrained_2d.training.train import Best

BEST = {"val_loss": Best(0.5, 10, 1), "accuracy": Best(0.7, 10, 1)}
MONITOR = ("val_loss", "accuracy")


@pytest.mark.parametrize(
    ("val_loss", "accuracy", "expected"),
    [
        (0.4, 0.8, ["val_loss", "accuracy"]),
        (0.6, 0.8, ["accuracy"]),
        (0.4, 0.6, ["val_loss"]),
        (0.6, 0.6, []),
        (0.5, 0.7, []),  # of equal ones the first is kept
    ],
)
def test_losses_are_better_when_lower(val_loss: float, accuracy: float, expected: list) -> None:
    metrics = {"val_loss": val_loss, "accuracy": accuracy, "other": 1.0}
    assert improved(metrics, BEST, MONITOR) == expected


def test_the_first_value_is_the_best_and_an_unknown_metric_is_named() -> None:
    assert improved({"val_loss": 9.0, "accuracy": 0.0}, {}, MONITOR) == list(MONITOR)
    with pytest.raises(TrainingError, match="monitor names accuracy, but the evaluation gives x"):
        improved({"x": 1.0}, {}, ("accuracy",))
