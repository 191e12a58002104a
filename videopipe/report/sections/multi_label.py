"""The section of a page that shows an evaluation of multi-label data: classes and videos."""

from pathlib import Path

import numpy as np

from videopipe.evaluation.score_table import Metrics, ScoreTable
from videopipe.report.page import MOST_ROWS, Cell, Section, Table
from videopipe.report.pictures import plots

MOST_CLASSES = 40  # in the picture, the lowest
NUM_NAMED = 3  # classes with the highest probabilities of a video


def multi_label_section(name: str, title: str, metrics: Metrics, table: ScoreTable) -> Section:
    """Average precision by class with intervals, and every video with its classes."""
    section = Section(name, title)
    entry, failed = metrics["mean_average_precision"], metrics["failed"]
    unread = f"; {failed} could not be read and rank last" if failed else ""
    section.text.append(
        f"Mean average precision {entry['value']:.1%} (95 % interval {entry['low']:.1%} to "
        f"{entry['high']:.1%}) over {len(metrics['per_class'])} classes and {metrics['videos']} "
        f"videos{unread}. A video may show several classes, or none."
    )
    if missing := metrics["classes_without_positives"]:
        section.text.append(f"Without a video, and left out of the mean: {', '.join(missing)}.")
    classes = sorted(metrics["per_class"], key=lambda one: float(one["value"]))
    rows = [(one["label"], one["value"], one["low"], one["high"]) for one in classes]
    heading = "Average precision by class"
    if len(rows) > MOST_CLASSES:
        heading = f"The {MOST_CLASSES} lowest of {len(rows)} classes"
    section.pictures.append(
        plots.intervals(
            f"{name}-classes", heading, rows[:MOST_CLASSES], x="average precision, 95 % interval"
        )
    )
    columns = ("class", "average precision", "low", "high", "videos")
    cells = [(*row, one["positives"]) for row, one in zip(rows, classes, strict=True)]
    section.tables.append(Table("Classes", columns, cells))
    section.tables.append(_videos(table))
    return section


def _videos(table: ScoreTable) -> Table:
    rows: list[tuple[Cell, ...]] = []
    readable = table.readable
    for row, path in enumerate(table.paths[:MOST_ROWS]):
        shown = ", ".join(table.labels[i] for i in np.flatnonzero(table.targets[row])) or "none"
        if not readable[row]:
            rows.append((Path(path).name, shown, "unreadable"))
            continue
        best = np.argsort(-table.scores[row], kind="stable")[:NUM_NAMED]
        predicted = ", ".join(f"{table.labels[i]} {table.scores[row, i]:.0%}" for i in best)
        rows.append((Path(path).name, shown, predicted))
    title = "Every video"
    if len(table.paths) > MOST_ROWS:
        title = f"{MOST_ROWS} of {len(table.paths)} videos (all are in scores.parquet)"
    return Table(title, ("video", "shows", "highest probabilities"), rows)
