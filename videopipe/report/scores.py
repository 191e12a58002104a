"""The part of a page that shows an evaluation: confusion, classes, calibration, single videos."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from videopipe.evaluation import Metrics, ScoreTable, read_metrics, read_scores
from videopipe.report import plots
from videopipe.report.filmstrip import film_strip
from videopipe.report.page import Cell, Section, Table
from videopipe.report.picture import Picture

NUM_STRIPS = 6  # of the worst mistakes, and of the best hits
NUM_PAIRS = 10
MOST_ROWS = 300


def score_section(name: str, title: str, folder: Path, num_strips: int = NUM_STRIPS) -> Section:
    """Everything `evaluate` left in `folder`, drawn; so many strips of mistakes and of hits."""
    section = Section(name, title)
    metrics, table = read_metrics(folder), read_scores(folder)
    section.text.append(_headline(metrics))
    section.pictures += _pictures(name, metrics)
    section.tables.append(_hardest_pairs(metrics))
    section.tables.append(_videos(table))
    for heading, rows in _telling_videos(table, num_strips).items():
        for row in rows:
            caption = f"{heading}: {_verdict(table, row)}"
            strip = film_strip(Path(table.paths[row]), caption, int(table.clips[row]))
            if isinstance(strip, str):
                section.missing.append(f"film strip of {table.paths[row]}: {strip}")
            else:
                section.strips.append(strip)
    return section


def _headline(metrics: Metrics) -> str:
    top1, failed = metrics["top1"], metrics["failed"]
    unread = f"; {failed} could not be read and count as mistakes" if failed else ""
    return (
        f"{top1['value']:.1%} of {metrics['videos']} videos right "
        f"(95 % interval {top1['low']:.1%} to {top1['high']:.1%}), "
        f"top-5 {metrics['top5']['value']:.1%}, "
        f"mean over classes {metrics['mean_class']:.1%}{unread}."
    )


def _pictures(name: str, metrics: Metrics) -> list[Picture]:
    calibration = metrics["calibration"]
    rows = [
        (entry["label"], entry["value"], entry["low"], entry["high"])
        for entry in metrics["per_class"]
    ]
    pictures = [
        plots.confusion(
            f"{name}-confusion", "Confusion", np.array(metrics["confusion"]), metrics["labels"]
        ),
        plots.intervals(
            f"{name}-classes", "Accuracy by class", rows, x="share right, 95 % interval"
        ),
    ]
    if calibration["bins"]:
        pictures.append(
            plots.reliability(
                f"{name}-calibration",
                "Reliability",
                [group["confidence"] for group in calibration["bins"]],
                [group["accuracy"] for group in calibration["bins"]],
                calibration["expected_error"],
            )
        )
    return pictures


def _hardest_pairs(metrics: Metrics) -> Table:
    counts, labels = np.array(metrics["confusion"]), metrics["labels"]
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:NUM_PAIRS]
    pairs = [np.unravel_index(flat, counts.shape) for flat in order]
    rows = [
        (labels[true], labels[said], int(counts[true, said]), int(counts[true].sum()))
        for true, said in pairs
        if wrong[true, said]
    ]
    return Table("Hardest pairs", ("true", "predicted", "videos", "of"), rows)


def _videos(table: ScoreTable) -> Table:
    rows: list[tuple[Cell, ...]] = []
    folder, paths = _within(table.paths)
    for row, path in enumerate(paths):
        true = table.labels[table.targets[row]]
        if not table.readable[row]:
            rows.append((path, true, "unreadable", None, False))
            continue
        said = int(np.argmax(table.scores[row]))
        right = said == table.targets[row]
        score = float(table.scores[row, said])
        rows.append((path, true, table.labels[said], score, bool(right)))
    columns = ("video", "true", "predicted", "probability", "right")
    title = "Every video"
    if len(rows) > MOST_ROWS:  # thousands of rows make a page slow to open
        rows = sorted(rows, key=lambda row: (bool(row[4]), -float(row[3] or 0.0)))[:MOST_ROWS]
        title = (
            f"{MOST_ROWS} of {len(paths)} videos, the surest mistakes first "
            "(all are in scores.parquet)"
        )
    return Table(f"{title}, in {folder}" if folder else title, columns, rows)


def _within(paths: Sequence[str]) -> tuple[str, list[str]]:
    """The folder that holds them all, and where in it each one lies."""
    try:
        folder = os.path.commonpath([str(Path(path).parent) for path in paths])
    except ValueError:  # none at all, or some relative
        return "", list(paths)
    return folder, [os.path.relpath(path, folder) for path in paths]


def _telling_videos(table: ScoreTable, num_strips: int) -> dict[str, list[int]]:
    """The mistakes the model was surest of, and the hits it was surest of."""
    readable = np.flatnonzero(table.readable)
    if not len(readable):
        return {}
    scores, targets = table.scores[readable], table.targets[readable]
    right = scores.argmax(axis=1) == targets
    order = np.argsort(-scores.max(axis=1), kind="stable")
    return {
        "Sure and wrong": [int(readable[row]) for row in order if not right[row]][:num_strips],
        "Sure and right": [int(readable[row]) for row in order if right[row]][:num_strips],
    }


def _verdict(table: ScoreTable, row: int) -> str:
    best = np.argsort(-table.scores[row], kind="stable")[:3]
    said = ", ".join(f"{table.labels[i]} {table.scores[row, i]:.0%}" for i in best)
    shown = table.labels[table.targets[row]]
    return f"{Path(table.paths[row]).name} shows {shown}; the model said {said}"
