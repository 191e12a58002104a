"""The section of a page that shows an evaluation: confusion, classes, calibration, videos."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from videopipe.evaluation.score_table import Metrics, ScoreTable, read_metrics, read_scores
from videopipe.evaluation.statistics import Integers
from videopipe.report.page import MOST_ROWS, Cell, Section, Table
from videopipe.report.pictures import plots
from videopipe.report.pictures.canvas import Picture
from videopipe.report.pictures.filmstrip import StripRequest, film_strips
from videopipe.report.sections.multi_label import multi_label_section

NUM_STRIPS = 6  # of mistakes, and of correct predictions
NUM_PAIRS = 10
# The most classes in a picture, which keeps labels readable and bounds its size.
MOST_CONFUSED = 30
LOWEST, HIGHEST = 30, 10


def score_section(name: str, title: str, folder: Path, num_strips: int = NUM_STRIPS) -> Section:
    """The evaluation in `folder`, with up to `num_strips` film strips of mistakes and of hits."""
    metrics, table = read_metrics(folder), read_scores(folder)
    if table.multi_label:
        return multi_label_section(name, title, metrics, table)
    section = Section(name, title)
    section.text.append(_headline(metrics))
    section.pictures += _pictures(name, metrics)
    section.tables.append(_hardest_pairs(metrics))
    section.tables.append(_videos(table))
    requests = [
        StripRequest(
            Path(table.paths[row]), f"{heading}: {_verdict(table, row)}", int(table.clips[row])
        )
        for heading, rows in _most_confident(table, num_strips).items()
        for row in rows
    ]
    for request, strip in zip(requests, film_strips(requests), strict=True):
        if isinstance(strip, str):
            section.missing.append(f"film strip of {request.path}: {strip}")
        else:
            section.strips.append(strip)
    return section


def _headline(metrics: Metrics) -> str:
    top1, failed = metrics["top1"], metrics["failed"]
    unread = f"; {failed} could not be read and counted as mistakes" if failed else ""
    return (
        f"{top1['value']:.1%} of {metrics['videos']} videos right "
        f"(95 % interval {top1['low']:.1%} to {top1['high']:.1%}), "
        f"top-5 {metrics['top5']['value']:.1%}, "
        f"mean over classes {metrics['mean_class']:.1%}{unread}."
    )


def _pictures(name: str, metrics: Metrics) -> list[Picture]:
    calibration = metrics["calibration"]
    counts, labels, title = most_confused(np.array(metrics["confusion"]), metrics["labels"])
    pictures = [plots.confusion(f"{name}-confusion", title, counts, labels)]
    rows = sorted(
        (
            (entry["label"], entry["value"], entry["low"], entry["high"])
            for entry in metrics["per_class"]
        ),
        key=lambda row: row[1],
    )
    title = "Accuracy by class"
    if len(rows) > LOWEST + HIGHEST:
        values = [row[1] for row in rows]
        pictures.append(
            plots.histogram(
                f"{name}-class-accuracies", "Accuracies of all classes", values,
                x="share right", of="classes",
            )
        )  # fmt: skip
        title = f"The {LOWEST} lowest and {HIGHEST} highest of {len(rows)} classes"
        rows = rows[:LOWEST] + rows[-HIGHEST:]
    pictures.append(plots.intervals(f"{name}-classes", title, rows, x="share right, 95 % interval"))
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


def most_confused(counts: Integers, labels: Sequence[str]) -> tuple[Integers, Sequence[str], str]:
    """The confusion matrix of the classes with most mistakes, the others summed into one.

    Returns the matrix, its labels and a title.
    """
    if len(labels) <= MOST_CONFUSED:
        return counts, labels, "Confusion"
    mistakes = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    order = np.argsort(-mistakes, kind="stable")
    shown = np.sort(order[:MOST_CONFUSED])
    place = np.full(len(labels), MOST_CONFUSED)
    place[shown] = np.arange(MOST_CONFUSED)
    matrix = np.zeros((MOST_CONFUSED + 1, MOST_CONFUSED + 1), dtype=counts.dtype)
    np.add.at(matrix, (place[:, None], place[None, :]), counts)
    names = [labels[index] for index in shown]
    title = f"Confusion of the {MOST_CONFUSED} most confused of {len(labels)} classes"
    return matrix, [*names, f"{len(labels) - MOST_CONFUSED} other classes"], title


def _hardest_pairs(metrics: Metrics) -> Table:
    counts, labels = np.array(metrics["confusion"]), metrics["labels"]
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:NUM_PAIRS]
    pairs = [np.unravel_index(flat, counts.shape) for flat in order]
    rows = [
        (labels[true], labels[predicted], int(counts[true, predicted]), int(counts[true].sum()))
        for true, predicted in pairs
        if wrong[true, predicted]
    ]
    return Table("Hardest pairs", ("true", "predicted", "videos", "of"), rows)


def _videos(table: ScoreTable) -> Table:
    rows: list[tuple[Cell, ...]] = []
    folder, paths = _within(table.paths)
    readable = table.readable
    for row, path in enumerate(paths):
        true = table.labels[table.targets[row]]
        if not readable[row]:
            rows.append((path, true, "unreadable", None, False))
            continue
        predicted = int(np.argmax(table.scores[row]))
        right = predicted == table.targets[row]
        score = float(table.scores[row, predicted])
        rows.append((path, true, table.labels[predicted], score, bool(right)))
    columns = ("video", "true", "predicted", "probability", "right")
    title = "Every video"
    if len(rows) > MOST_ROWS:
        rows = sorted(rows, key=lambda row: (bool(row[4]), -float(row[3] or 0.0)))[:MOST_ROWS]
        title = (
            f"{MOST_ROWS} of {len(paths)} videos, the most confident mistakes first "
            "(all are in scores.parquet)"
        )
    return Table(f"{title}, in {folder}" if folder else title, columns, rows)


def _within(paths: Sequence[str]) -> tuple[str, list[str]]:
    """The folder that contains all paths, and each path relative to it."""
    try:
        folder = os.path.commonpath([str(Path(path).parent) for path in paths])
    except ValueError:  # none at all, or some relative
        return "", list(paths)
    return folder, [os.path.relpath(path, folder) for path in paths]


def _most_confident(table: ScoreTable, num_strips: int) -> dict[str, list[int]]:
    """The rows of the most confident mistakes and of the most confident correct predictions."""
    readable = table.readable
    if not readable.any():
        return {}
    right = readable & (table.scores.argmax(axis=1) == table.targets)
    confidence = np.where(readable, table.scores.max(axis=1), -1.0)
    order = np.argsort(-confidence, kind="stable")[: readable.sum()]
    return {
        "Confident and wrong": [int(row) for row in order if not right[row]][:num_strips],
        "Confident and right": [int(row) for row in order if right[row]][:num_strips],
    }


def _verdict(table: ScoreTable, row: int) -> str:
    best = np.argsort(-table.scores[row], kind="stable")[:3]
    predicted = ", ".join(f"{table.labels[i]} {table.scores[row, i]:.0%}" for i in best)
    shown = table.labels[table.targets[row]]
    return f"{Path(table.paths[row]).name}, true class {shown}; predicted {predicted}"
