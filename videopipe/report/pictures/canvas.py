"""A picture of a report: an SVG that takes the colours of the surrounding page."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from pretrained_2d import atomic

# Okabe and Ito's palette: distinguishable with every common kind of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00", "#777777")
INK = "#0f1e2d"  # replaced by the text colour of the page, light or dark
BLUE, PAGE_BLUE = "#0072b2", "var(--blue)"  # a dark page uses a lighter blue

WIDE_INCHES = 8.0
PNG_DPI = 144  # dots per inch: sharp on a slide

_STYLE: dict[Any, Any] = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "figure.facecolor": "none",
    "font.sans-serif": ["DejaVu Sans"],  # each label repeats the list, so it has one name
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: searchable, in the reader's font
    "text.color": INK,
    "text.parse_math": False,  # a label such as "$5" is not a formula
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Picture:
    """One figure of a page: title, description (alt) and drawing."""

    name: str
    title: str
    alt: str
    svg: str
    wide: bool = False  # takes the whole width of the page
    png: bytes = b""  # the same picture for slides and documents

    def save(self, folder: Path) -> Path:
        """Write the drawing as SVG and PNG files with dark text on a white page."""
        path = folder / f"{self.name}.svg"
        ink = self.svg.replace("currentColor", INK).replace(PAGE_BLUE, BLUE)
        atomic.write_text(path, ink)
        if self.png:
            atomic.write_bytes(path.with_suffix(".png"), self.png)
        return path


def plain_log_scale(axes: Axes) -> None:
    """A logarithmic vertical axis labelled 0.1, 1, 10 (powers would be formulas).

    An axis that spans less than about a decade also labels 2 and 5.
    """
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    short = high / low < 30
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if short else (1,)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _in_hundredths(tag: re.Match[str]) -> str:
    """Round coordinates to hundredths of a point. Labels are between tags and stay unchanged."""
    return re.sub(r"(\.\d\d)\d+", r"\1", tag[0])


class Canvas:
    """`with Canvas(name, title, alt, size) as canvas: canvas.axes…`, then `canvas.picture`."""

    def __init__(
        self,
        name: str,
        title: str,
        alt: str,
        *,
        size: tuple[float, float] = (6.4, 3.6),  # inches
        grid: tuple[int, int] = (1, 1),
    ) -> None:
        self.name, self.title, self.alt = name, title, alt
        self._style = mpl.rc_context({**_STYLE, "svg.hashsalt": name})
        self._size, self._grid = size, grid

    def __enter__(self) -> "Canvas":
        self._style.__enter__()
        self.figure = Figure(figsize=self._size, layout="constrained")
        self.all_axes: Sequence[Axes] = list(
            self.figure.subplots(*self._grid, squeeze=False).ravel()
        )
        self.axes = self.all_axes[0]
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                text = io.StringIO()
                self.figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
                drawing = text.getvalue()
                drawing = drawing[drawing.index("<svg") :].replace(INK, "currentColor")
                drawing = drawing.replace(BLUE, PAGE_BLUE)
                drawing = re.sub(r"<[^>]+>", _in_hundredths, drawing)
                self.figure.set_layout_engine(
                    "none"
                )  # the layout is done; repeating it takes a third
                pixels = io.BytesIO()
                self.figure.savefig(pixels, format="png", dpi=PNG_DPI, facecolor="white")
                wide = self._size[0] >= WIDE_INCHES
                self.picture = Picture(
                    self.name, self.title, self.alt, drawing, wide, pixels.getvalue()
                )
        finally:
            self._style.__exit__(None, None, None)
