"""The table of `make bench`: rows with their targets, in a terminal and in docs/performance.md."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import torch

PAGE = Path(__file__).resolve().parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- table of `make bench`: begin -->", "<!-- table of `make bench`: end -->"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    part: str
    shape: str
    ours: str
    alternative: str
    ratio: float
    target: float | None = None  # None: reported without one
    at_least: bool = True  # else the ratio must stay below the target

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target

    def cells(self) -> list[str]:
        """As the table shows them."""
        target = "" if self.target is None else f"{'≥' if self.at_least else '≤'} {self.target:.3g}"
        ratio = f"{self.ratio:.2f}"
        verdict = {True: "met", False: "missed", None: ""}[self.met]
        return [self.part, self.shape, self.ours, self.alternative, ratio, target, verdict]


def table(rows: list[Row]) -> str:
    """Markdown, aligned for reading in a terminal."""
    lines = [["part", "shape", "ours", "alternative", "ratio", "target", ""]]
    lines += [row.cells() for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def machine() -> str:
    """Processor, instruction set, cores and torch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{processor()} ({capability}), {cores} cores, torch {torch.__version__}"


def processor() -> str:
    """The name of the processor: from /proc on Linux, else as Python knows it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def write_page(text: str, page: Path = PAGE) -> None:
    """Replace what lies between the markers of the page."""
    content = page.read_text(encoding="utf-8")
    if content.count(BEGIN) != 1 or content.count(END) != 1:
        raise SystemExit(f"{page} must have one line {BEGIN} and one line {END}; restore them")
    before, rest = content.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
