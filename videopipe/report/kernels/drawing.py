"""Plots of kernels, one panel per layer."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from videopipe.report.kernels.axes import DrawnAxis, Values, response
from videopipe.report.pictures.canvas import COLOURS, INK, Canvas, Picture, plain_log_scale

LONGEST_NAME = 28  # letters above a panel


def kernels(
    name: str,
    axis: str,
    after: Sequence[DrawnAxis],
    before: Mapping[str, DrawnAxis],
    seconds: Callable[[int], float | None],
    max_panels: int,
) -> Picture:
    """Kernels along one axis, layer by layer: median and spread over channels."""
    in_seconds = axis == "time" and seconds(after[0].size) is not None
    unit = "seconds" if in_seconds else "samples"
    title = f"Kernels along {axis}"
    alt = (
        f"{title} in {len(after)} layers: the median over channels (line) and the middle 80 % "
        f"(band) of the kernel against the lag in {unit}"
        + ("; before training dashed" if before else "")
        + ". A narrow peak at lag 0 keeps the sample, a wide one mixes its neighbours."
    )

    def panel(axes: Axes, one: DrawnAxis) -> None:
        scale = (seconds(one.size) or 1.0) if in_seconds else 1.0
        low, middle, high = np.quantile(one.taps, [0.1, 0.5, 0.9], axis=0)
        axes.fill_between(scale * one.lags, low, high, color=COLOURS[5], alpha=0.4, lw=0)
        marker = "o" if one.size == 1 else ""  # one tap alone makes no line
        label = "after" if before else "kernel"
        axes.plot(scale * one.lags, middle, color=INK, label=label, marker=marker)
        if one.layer in before:
            earlier = before[one.layer]
            median = np.median(earlier.taps, axis=0)
            axes.plot(
                scale * earlier.lags, median, "--", color=COLOURS[1], label="before", marker=marker
            )

    return _panels(
        f"{name}-{axis}",
        title,
        alt,
        after,
        panel,
        max_panels=max_panels,
        x=f"lag ({unit})",
        y="weight",
    )


def responses(
    name: str,
    axis: str,
    after: Sequence[DrawnAxis],
    before: Mapping[str, DrawnAxis],
    max_panels: int,
) -> Picture:
    """The frequency response of each layer, with the Nyquist frequency and the bandlimit."""
    title = f"Frequency response along {axis}"
    limited = [one for one in after if one.bandlimit is not None]
    cut = "red at the bandlimit" if limited else "these layers have no bandlimit"
    alt = (
        f"{title}: median magnitude over channels (line) and the middle 80 % (band) against cycles "
        f"per sample; dotted at 0.5 the Nyquist frequency; {cut}."
    )

    def panel(axes: Axes, one: DrawnAxis) -> None:
        frequency, size = response(one)
        low, middle, high = np.quantile(size, [0.1, 0.5, 0.9], axis=0)
        axes.fill_between(frequency, low, high, color=COLOURS[5], alpha=0.4, lw=0)
        axes.plot(frequency, middle, color=INK, label="after" if before else "response")
        if one.layer in before:
            frequency, size = response(before[one.layer])
            axes.plot(frequency, np.median(size, axis=0), "--", color=COLOURS[1], label="before")
        axes.axvline(0.5, ls=":", color=INK, lw=1, label="Nyquist")
        if one.bandlimit is not None:
            axes.axvline(min(one.bandlimit / 2, 0.5), color="#cc0000", lw=1, label="cut")

    return _panels(
        f"{name}-{axis}-response",
        title,
        alt,
        after,
        panel,
        max_panels=max_panels,
        x="cycles per sample",
        y="magnitude",
    )


def lengths(
    name: str, axis: str, after: Sequence[DrawnAxis], before: Mapping[str, DrawnAxis]
) -> Picture:
    """Kernel length 2/Δ per layer, learned and initial."""
    title = f"Kernel length along {axis}"
    alt = (
        f"{title}, layer by layer: 2/Δ in samples; median (point) and "
        "middle 80 % (bar) over channels" + (", at the start and learned." if before else ".")
    )
    with Canvas(f"{name}-{axis}-length", title, alt, size=(5.2, 3.2)) as canvas:
        depth = np.arange(1.0, len(after) + 1)
        _length_bars(canvas.axes, depth, [one.lengths for one in after], COLOURS[0], "learned")
        if before:
            values = [before[one.layer].lengths for one in after if one.layer in before]
            places = depth[[one.layer in before for one in after]] - 0.25
            _length_bars(canvas.axes, places, values, COLOURS[1], "initial")
        canvas.axes.set(xlabel="layer, from input to output", ylabel="2/Δ (samples)", title=title)
        canvas.axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        plain_log_scale(canvas.axes)
        canvas.axes.legend(fontsize=8)
    return canvas.picture


def _length_bars(
    axes: Axes, places: Values, values: Sequence[Values], colour: str, label: str
) -> None:
    quantiles = [np.quantile(each, [0.1, 0.5, 0.9]) for each in values]
    low, middle, high = np.stack(quantiles, axis=-1)  # (layers,) each
    axes.vlines(places, low, high, color=colour, alpha=0.4, lw=4)
    axes.plot(places, middle, "o", color=colour, ms=4, label=label)


def _panels(
    name: str,
    title: str,
    alt: str,
    drawn: Sequence[DrawnAxis],
    panel: Callable[[Axes, DrawnAxis], None],
    *,
    max_panels: int,
    x: str,
    y: str,
) -> Picture:
    if len(drawn) > max_panels:  # evenly from input to output, the first and the last included
        chosen = np.linspace(0, len(drawn) - 1, max_panels).round().astype(int)
        drawn = [drawn[index] for index in chosen]
        alt += f" {max_panels} layers shown, evenly from input to output."
    columns = min(4, len(drawn))
    rows = math.ceil(len(drawn) / columns)
    size = (max(4.8, 2.4 * columns), 1.7 * rows + 0.9)
    with Canvas(name, title, alt, size=size, grid=(rows, columns)) as canvas:
        names = panel_names([one.layer for one in drawn])
        for axes, one, label in zip(canvas.all_axes, drawn, names, strict=False):
            panel(axes, one)
            axes.set_title(label, fontsize=7)
            axes.tick_params(labelsize=6)
        for axes in canvas.all_axes[len(drawn) :]:
            axes.axis("off")
        canvas.all_axes[0].legend(fontsize=6)
        canvas.figure.suptitle(title)
        canvas.figure.supxlabel(x, fontsize=8)
        canvas.figure.supylabel(y, fontsize=8)
    return canvas.picture


def panel_names(layers: Sequence[str]) -> list[str]:
    """Names of layers without the parts that all begin or end with: short enough for a panel."""
    parts = [layer.split(".") for layer in layers]
    first = _count_shared(parts)
    last = _count_shared([each[:first:-1] for each in parts])
    kept = [".".join(each[first : len(each) - last]) for each in parts]
    return [(short or layer)[-LONGEST_NAME:] for short, layer in zip(kept, layers, strict=True)]


def _count_shared(lists: Sequence[Sequence[str]]) -> int:
    """How many items all lists begin with."""
    same = (len(set(items)) == 1 for items in zip(*lists, strict=False))
    return sum(takewhile(bool, same))
