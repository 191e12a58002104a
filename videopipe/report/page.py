"""A page: sections of text, tables, pictures and film strips in one self-contained HTML file."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from pretrained_2d import atomic
from videopipe.report.pictures.canvas import Picture

OWN_STYLE = re.compile(r'<style type="text/css">\*\{.*?</style>', re.DOTALL)
Cell = str | int | float | bool | None
MOST_ROWS = 300  # of a table: more make a page slow to open


@dataclass(frozen=True)
class Table:
    """Rows that can be sorted and filtered."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Strip:
    """A row of frames of one video."""

    image: str  # data URI
    caption: str
    alt: str
    width: int  # pixels
    height: int


@dataclass(frozen=True)
class TextBlock:
    """Collapsible text: a configuration, a log."""

    title: str
    text: str
    open: bool = False


@dataclass
class Section:
    """A part of the page. `missing` lists what could not be shown, with reasons."""

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    strips: list[Strip] = field(default_factory=list)
    blocks: list[TextBlock] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether it has neither content nor missing parts."""
        parts: tuple[list[Any], ...] = (
            self.text, self.tables, self.pictures, self.strips, self.blocks, self.missing,
        )  # fmt: skip
        return not any(parts)


def format_cell(value: Cell) -> str:
    """Numbers with four digits, other values unchanged."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value


def _inline(drawing: str) -> Markup:
    """A drawing without its `*` style rule, which would make the browser restyle the whole page."""
    return Markup(OWN_STYLE.sub("", drawing))


def render(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The page as HTML. Everything is escaped except the drawings made here."""
    here = resources.files("videopipe.report")
    # With svg.fonttype none labels stay text, which matplotlib escapes.
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["cell"] = format_cell
    environment.filters["drawing"] = _inline
    template = environment.from_string((here / "page.html").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        subtitle=subtitle,
        sections=[section for section in sections if not section.empty],
        style=Markup((here / "page.css").read_text(encoding="utf-8")),
        script=Markup((here / "page.js").read_text(encoding="utf-8")),
    )


def write_page(folder: Path, title: str, subtitle: str, sections: Sequence[Section]) -> Path:
    """Write `report.html` and the pictures beside it; returns the path of the page."""
    saved = {picture.save(folder / "pictures").stem for s in sections for picture in s.pictures}
    for older in (folder / "pictures").glob("*.[ps][nv]g"):
        if older.stem not in saved:  # of a stage that is no longer in the run
            older.unlink()
    page = folder / "report.html"
    atomic.write_text(page, render(title, subtitle, sections))
    return page
