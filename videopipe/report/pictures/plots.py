"""Plots of a run: learning curves, confusion, accuracy by class, calibration, durations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from videopipe.report.pictures.canvas import COLOURS, INK, Canvas, Picture, plain_log_scale

Points = Sequence[tuple[float, float]]
MOST_INSIDE = 8  # lines whose legend fits inside the axes; that of more is below them
LONGEST_IN_TWO_COLUMNS = 40  # letters
LEGEND_LINE_INCHES = 0.15


def curves(
    name: str,
    title: str,
    series: Mapping[str, Points],
    *,
    x: str,
    y: str,
    meaning: str = "",
    log: bool = False,
) -> Picture:
    """One line per series."""
    lines = f"{len(series)} lines: {', '.join(series)}." if len(series) > 1 else ""
    alt = f"{title}, by {x}. {meaning} {lines}".strip()
    columns = 2 if max(map(len, series), default=0) <= LONGEST_IN_TWO_COLUMNS else 1
    below = math.ceil(len(series) / columns) if len(series) > MOST_INSIDE else 0  # legend lines
    with Canvas(name, title, alt, size=(5.2, 3.2 + below * LEGEND_LINE_INCHES)) as canvas:
        for index, (label, points) in enumerate(series.items()):
            horizontal, vertical = zip(*points, strict=True) if points else ((), ())
            style = ("-", "--", ":", "-.")[index // len(COLOURS) % 4]
            marker = "o" if len(points) == 1 else ""
            canvas.axes.plot(horizontal, vertical, style, label=label, marker=marker, lw=1.5)
        canvas.axes.set(xlabel=x, ylabel=y, title=title)
        if log:
            plain_log_scale(canvas.axes)
        if below:
            canvas.figure.legend(loc="outside lower left", fontsize=6, ncols=columns)
        elif len(series) > 1:
            canvas.axes.legend(fontsize=7)
    return canvas.picture


def confusion(
    name: str, title: str, counts: NDArray[np.integer[Any]], labels: Sequence[str]
) -> Picture:
    """Rows are true classes, columns predictions, the shade is the share of the row."""
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = max(4.0, 0.22 * len(labels) + 1.6)
    worst = int(np.argmin(np.diag(share)))
    alt = (
        f"{title}: a row for each true class, a column for each prediction. A perfect model fills "
        f"the diagonal only. Lowest: {labels[worst]} at {share[worst, worst]:.0%}."
    )
    with Canvas(name, title, alt, size=(side + 0.8, side)) as canvas:
        axes = canvas.axes
        picture = axes.imshow(share, cmap="cividis", vmin=0, vmax=1, interpolation="none")
        axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
        axes.set_yticks(range(len(labels)), labels, fontsize=7)
        axes.set(xlabel="predicted", ylabel="true", title=title)
        axes.grid(visible=False)
        if len(labels) <= 12:
            for row, column in np.argwhere(counts > 0):
                colour = "#ffffff" if share[row, column] < 0.5 else "#000000"
                axes.text(
                    column, row, str(counts[row, column]), ha="center", va="center", color=colour
                )
        canvas.figure.colorbar(picture, ax=axes, label="share of the true class", shrink=0.8)
    return canvas.picture


def intervals(
    name: str, title: str, rows: Sequence[tuple[str, float, float, float]], *, x: str
) -> Picture:
    """A point and its interval per row: (label, value, low, high), sorted by value."""
    rows = sorted(rows, key=lambda row: row[1])
    alt = (
        f"{title}: from {rows[0][0]} ({rows[0][1]:.0%}) to {rows[-1][0]} ({rows[-1][1]:.0%}); the "
        "point is the accuracy, the bar its 95 % interval."
    )
    with Canvas(name, title, alt, size=(6.4, 0.18 * len(rows) + 1.2)) as canvas:
        for position, (_, value, low, high) in enumerate(rows):
            canvas.axes.plot([low, high], [position, position], color=COLOURS[5], lw=3)
            canvas.axes.plot([value], [position], "o", color=COLOURS[0], ms=4)
        canvas.axes.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=7)
        canvas.axes.set(xlabel=x, title=title)
    return canvas.picture


def reliability(
    name: str, title: str, confidence: Sequence[float], accuracy: Sequence[float], error: float
) -> Picture:
    """Accuracy by confidence; the dashed line is perfect calibration."""
    alt = (
        f"{title}: accuracy by confidence. On the dashed line they are equal, below it the model "
        f"is overconfident. The mean difference is {error:.1%}."
    )
    with Canvas(name, title, alt, size=(4.2, 4.0)) as canvas:
        canvas.axes.plot([0, 1], [0, 1], "--", color=INK, lw=1, label="perfect")
        canvas.axes.plot(confidence, accuracy, "o-", label=f"model (error {error:.3f})")
        canvas.axes.set(xlabel="probability given by the model", ylabel="share right", title=title)
        canvas.axes.set(xlim=(0, 1), ylim=(0, 1))
        canvas.axes.legend(fontsize=8)
    return canvas.picture


def histogram(
    name: str, title: str, values: Sequence[float], *, x: str, of: str = "videos"
) -> Picture:
    """How many items have each value."""
    alt = f"{title}, {len(values)} {of}: from {min(values):.3g} to {max(values):.3g} {x}."
    with Canvas(name, title, alt, size=(4.8, 3.0)) as canvas:
        canvas.axes.hist(values, bins=min(40, max(5, len(values) // 5)), color=COLOURS[0])
        canvas.axes.set(xlabel=x, ylabel=of, title=title)
    return canvas.picture


def stage_graph(stages: Mapping[str, tuple[str, Sequence[str], str]]) -> Picture:
    """A box per stage and an arrow per input; `stages`: name -> (use, names of inputs, status)."""
    depth: dict[str, int] = {}
    for name, (_, inputs, _) in stages.items():
        depth[name] = 1 + max((depth[one] for one in inputs if one in depth), default=-1)
    rows: dict[int, int] = {}
    place: dict[str, tuple[float, float]] = {}
    for name in stages:
        row = rows.get(depth[name], 0)
        rows[depth[name]] = row + 1
        place[name] = (depth[name] * 2.0, -row * 1.0)
    columns, height = 1 + max(rows), max(rows.values())
    edges = [f"{one} to {name}" for name, (_, inputs, _) in stages.items() for one in inputs]
    alt = f"Graph of the stages ({len(stages)}): " + ("; ".join(edges) or "no connections") + "."
    colour = {"cached": COLOURS[5], "done": COLOURS[2], "resumed": COLOURS[2]}
    colour |= dict.fromkeys(("failed", "interrupted"), COLOURS[1])
    with Canvas("stages", "Stages", alt, size=(1.7 * columns + 0.4, 0.8 * height + 0.6)) as canvas:
        for name, (use, inputs, status) in stages.items():
            x, y = place[name]
            edge = colour.get(status, COLOURS[7])
            box = {"boxstyle": "round,pad=0.5", "fc": "none", "ec": edge, "lw": 2}
            canvas.axes.text(x, y, f"{name}\n{use}, {status}", ha="center", va="center", bbox=box)
            for one in inputs:
                if one in place:
                    arrow = {"arrowstyle": "->", "color": INK, "shrinkA": 42, "shrinkB": 42}
                    canvas.axes.annotate("", (x, y), place[one], arrowprops=arrow)
        canvas.axes.set(xlim=(-1, 2 * columns - 1), ylim=(-height + 0.4, 0.6))
        canvas.axes.axis("off")
    return canvas.picture
