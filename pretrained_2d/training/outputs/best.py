"""Which networks of a run are kept: the best by each monitored metric, and the last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from pretrained_2d.atomic import new_folder, write_bytes
from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.errors import TrainingError
from pretrained_2d.training.train import Best


def improved(
    metrics: Mapping[str, float], best: Mapping[str, Best], monitor: Sequence[str]
) -> list[str]:
    """The monitored metrics that are better than ever before; losses are better when lower.

    Raises:
        TrainingError: the evaluation does not return a monitored metric.
    """
    unknown = [name for name in monitor if name not in metrics]
    if unknown:
        raise TrainingError(
            f"monitor names {', '.join(unknown)}, but the evaluation gives {', '.join(metrics)}"
        )
    return [name for name in monitor if name not in best or _is_better(name, metrics, best)]


def _is_better(name: str, metrics: Mapping[str, float], best: Mapping[str, Best]) -> bool:
    if "loss" in name:
        return metrics[name] < best[name].value
    return metrics[name] > best[name].value


def save_network(
    folder: Path, model: nn.Module, card: ModelCard, metrics: Mapping[str, float], epoch: int
) -> None:
    """Write a checkpoint whose card holds the metrics and the epoch."""
    reached = {"metrics": dict(metrics), "epoch": epoch}
    with new_folder(folder) as beside:
        save_checkpoint(beside, model, replace(card, provenance={**card.provenance, **reached}))


def publish(source: Path, out: Path) -> None:
    """Copy the checkpoint in `source` to `out`; the card comes last and marks it as complete."""
    names = [path.name for path in source.iterdir() if path.is_file()]
    for name in sorted(names, key=lambda name: name == "config.json"):
        write_bytes(out / name, (source / name).read_bytes())
