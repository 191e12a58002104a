"""The section of a page that shows training: the curves of all runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pretrained_2d.training.outputs.metrics_log import read_metrics
from videopipe.report.page import Section
from videopipe.report.pictures import plots
from videopipe.report.pictures.canvas import Picture

# (key of a record, title, unit of the vertical axis, what it means, logarithmic)
TRAIN_CURVES = (
    ("loss", "Training loss", "loss", "Of the training batches; it should fall.", False),
    ("accuracy", "Training accuracy", "share right", "Of the training batches, with mixup and "
     "augmentation, so it may stay below the accuracy of evaluation.", False),
    ("lr", "Learning rate", "learning rate", "Warm-up, then decay.", False),
    ("gradient_norm", "Gradient norm", "norm", "Over all parameters, before clipping; "
     "sudden peaks are a sign of instability.", True),
)  # fmt: skip
EVALUATED = "Of videos or images that are not trained on."
SPENT = "If steps wait for data, more workers or a frame cache help."
NOT_A_SCORE = {"time", "epoch", "seconds", "images"}  # keys of an evaluation without a curve
Records = Sequence[Mapping[str, Any]]


def training_section(name: str, title: str, folders: Mapping[str, Path]) -> Section:
    """One line per run; `folders` are result folders by label, each with a `metrics.jsonl`."""
    section = Section(name, title)
    runs: dict[str, Records] = {}
    for label, folder in folders.items():
        log = folder / "metrics.jsonl"
        records = read_metrics(log) if log.exists() else []
        if records:
            runs[label] = records
        else:
            section.missing.append(f"{label}: no metrics were written yet ({log.name})")
    if runs:
        section.pictures += _pictures(name, runs)
    return section


def _pictures(name: str, runs: Mapping[str, Records]) -> list[Picture]:
    pictures = []
    for key, title, unit, meaning, log in TRAIN_CURVES:
        series = {label: _points(records, "train", key) for label, records in runs.items()}
        pictures += _drawn(f"{name}-{key}", title, series, y=unit, meaning=meaning, log=log)
    for key in _evaluation_keys(runs):
        series = {label: _points(records, "evaluation", key) for label, records in runs.items()}
        slug = key.replace("/", "-").replace("@", "-")
        words = key.replace("_", " ").replace("@", " at size ")
        title = f"Evaluation: {words}"
        pictures += _drawn(f"{name}-{slug}", title, series, y=words, meaning=EVALUATED)
    time = {}
    for label, records in runs.items():
        time[f"{label}: step"] = _points(records, "train", "step_seconds")
        time[f"{label}: waiting for data"] = _points(records, "train", "data_seconds")
    title = "Time per step"
    return pictures + _drawn(f"{name}-seconds", title, time, y="seconds", meaning=SPENT)


def _drawn(
    name: str,
    title: str,
    series: Mapping[str, plots.Points],
    *,
    y: str,
    meaning: str,
    log: bool = False,
) -> list[Picture]:
    series = {label: points for label, points in series.items() if points}
    if not series:
        return []
    return [plots.curves(name, title, series, x="step", y=y, meaning=meaning, log=log)]


def _points(records: Records, kind: str, key: str) -> list[tuple[float, float]]:
    return [
        (record["step"], record[key])
        for record in records
        if record.get("kind") == kind and record.get(key) is not None
    ]


def _evaluation_keys(runs: Mapping[str, Records]) -> list[str]:
    keys: dict[str, None] = {}
    for records in runs.values():
        for record in records:
            if record.get("kind") == "evaluation":
                keys |= dict.fromkeys(
                    key
                    for key, value in record.items()
                    if isinstance(value, float) and key not in NOT_A_SCORE
                )
    return list(keys)
