"""Plots of a comparison: accuracies with intervals, kernel lengths, frame rates."""

from collections.abc import Mapping, Sequence
from typing import Any

from videopipe.evaluation.comparison.table import ComparisonRow, Evaluation
from videopipe.report.pictures.canvas import COLOURS, Canvas, Picture, plain_log_scale


def draw(rows: Sequence[ComparisonRow], evaluations: Sequence[Evaluation]) -> list[Picture]:
    """Every plot for which the evaluations have numbers."""
    pictures = [accuracies(rows)]
    lengths = {e.row: e.metrics["time_axis"] for e in evaluations if e.metrics.get("time_axis")}
    if lengths:
        pictures.append(kernel_lengths(lengths))
    by_rate = {
        e.row: e.metrics["temporal_resolution"]
        for e in evaluations
        if e.metrics.get("temporal_resolution")
    }
    return [*pictures, *(frame_rates(name, table) for name, table in by_rate.items())]


def accuracies(rows: Sequence[ComparisonRow]) -> Picture:
    """Top-1 of every row with its interval, and the paper's number where there is one."""
    title = "Top-1 accuracy with 95 % intervals"
    alt = f"{title}: " + "; ".join(f"{row.name} {100 * row.top1:.1f} %" for row in rows) + "."
    with Canvas("accuracy", title, alt, size=(6.4, 1.2 + 0.35 * len(rows))) as canvas:
        for place, row in enumerate(rows):
            below, above = row.top1 - row.low, row.high - row.top1
            canvas.axes.errorbar(
                100 * row.top1, place, xerr=[[100 * below], [100 * above]], fmt="o", capsize=3,
                color=COLOURS[0], label="here" if place == 0 else None,
            )  # fmt: skip
        stated = [(100 * row.paper, place) for place, row in enumerate(rows) if row.paper]
        if stated:
            across, places = zip(*stated, strict=True)
            canvas.axes.plot(across, places, "D", color=COLOURS[1], label="paper")
            canvas.axes.legend(fontsize=7)
        canvas.axes.set_yticks(range(len(rows)), [row.name for row in rows])
        canvas.axes.invert_yaxis()
        canvas.axes.set(xlabel="top-1 (%)", title=title)
    return canvas.picture


def kernel_lengths(by_row: Mapping[str, Sequence[Mapping[str, Any]]]) -> Picture:
    """Learned and initial length of every time kernel, by layer."""
    title = "Length of the time kernels, learned against initial"
    alt = f"{title}, layer by layer, for {', '.join(by_row)}; unit: steps of the network's time."
    with Canvas("kernel_lengths", title, alt, size=(6.4, 4.4)) as canvas:
        for index, (name, layers) in enumerate(by_row.items()):
            depth = range(1, len(layers) + 1)
            colour = COLOURS[index % len(COLOURS)]
            learned = [layer["learned_length"] for layer in layers]
            initial = [layer["initial_length"] for layer in layers]
            low = [layer["learned_low"] for layer in layers]
            high = [layer["learned_high"] for layer in layers]
            canvas.axes.fill_between(depth, low, high, color=colour, alpha=0.15, lw=0)
            canvas.axes.plot(depth, learned, "-o", color=colour, ms=3, label=f"{name}, learned")
            canvas.axes.plot(depth, initial, "--", color=colour, lw=1, label=f"{name}, initial")
        plain_log_scale(canvas.axes)
        canvas.axes.set(xlabel="layer, from input to output", title=title)
        canvas.axes.set_ylabel("2/Δ in time steps (median, quartiles)")
        canvas.axes.legend(fontsize=7)
    return canvas.picture


def frame_rates(row: str, table: Sequence[Mapping[str, Any]]) -> Picture:
    """Accuracy at other frame rates, with the rate of the time axis set and with rate 1."""
    title = f"Accuracy at other frame rates: {row}"
    alt = f"{title}; one line with the rate of the time axis set, one with rate 1."
    with Canvas("frame_rates_" + row.replace(" ", "_"), title, alt) as canvas:
        across = [entry["frames_per_second"] for entry in table]
        for key, label in (("with_rate", "right rate"), ("without_rate", "rate 1")):
            values = [entry[key] for entry in table]
            middle = [100 * value["value"] for value in values]
            below = [100 * (value["value"] - value["low"]) for value in values]
            above = [100 * (value["high"] - value["value"]) for value in values]
            canvas.axes.errorbar(
                across, middle, yerr=[below, above], fmt="-o", capsize=3, label=label
            )
        canvas.axes.set(xlabel="frames per second", ylabel="top-1 (%)", title=title)
        canvas.axes.legend(fontsize=7)
    return canvas.picture
