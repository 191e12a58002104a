"""The sections of a page that show comparisons, inflation and the state of the data."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from videopipe.report.page import MOST_ROWS, Section, Table
from videopipe.report.pictures import plots
from videopipe.report.pictures.canvas import BLUE, INK, PAGE_BLUE, Picture


def comparison_section(name: str, title: str, folder: Path) -> Section:
    """The table of `compare`: paper and here, with intervals."""
    section = Section(name, title)
    whole = json.loads((folder / "table.json").read_text())
    rows = []
    for row in whole["rows"]:
        interval = f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"
        paper = None if row["paper"] is None else round(100 * row["paper"], 2)
        here = round(100 * row["top1"], 2)
        rows.append((row["name"], paper, here, interval, row["videos"], row["parameters"]))
    columns = ("model", "paper (%)", "here (%)", "95 % interval", "videos", "parameters")
    section.tables.append(Table("Top-1 accuracy", columns, rows))
    paired = [
        (other, 100 * pair["difference"], pair["only_second"], pair["only_first"], pair["p_value"])
        for other, pair in whole["paired"].items()
    ]
    if paired:
        caption = f"Difference to {whole['reference']} on the same videos"
        heads = ("model", "points", "only this right", "only the reference right", "p")
        section.tables.append(Table(caption, heads, paired))
    for path in sorted(folder.glob("*.svg")):
        label = path.stem.replace("_", " ")
        drawing = path.read_text().replace(INK, "currentColor").replace(BLUE, PAGE_BLUE)
        section.pictures.append(Picture(path.stem, label, label, drawing))
    return section


def inflation_section(name: str, title: str, folder: Path) -> Section:
    """The status of every layer, and the result of the boring-video test."""
    section = Section(name, title)
    whole = json.loads((folder / "inflation.json").read_text())
    proof = whole["proof"]
    section.text.append(
        f"{whole['architecture']} by {whole['options']['method']} ({whole['way']}): "
        f"{whole['parameters_before']:,} parameters became {whole['parameters_after']:,}."
    )
    section.text.append(_boring_video(proof))
    rows = [
        (row["layer"], row["status"], _shapes(row["before"]), _shapes(row["after"]),
         row["parameters_before"], row["parameters_after"])
        for row in whole["rows"]
    ]  # fmt: skip
    columns = ("layer", "status", "2D shapes", "video shapes", "parameters 2D", "parameters video")
    section.tables.append(Table("Layers", columns, rows))
    return section


def _boring_video(proof: dict[str, Any]) -> str:
    """The result of the boring-video test in words."""
    words = (
        "Boring-video test: an image repeated over time should get the logits that the 2D network "
        f"gives the image. Largest difference of a logit: {proof['difference']:.3g}; the same "
        f"class for {proof['agreement']:.0%} of {proof['num_images']} images."
    )
    if proof.get("exact"):
        return words + " The start is exact, to rounding."
    reasons = "; ".join(proof.get("why_not") or ())
    return words + f" The start is not exact{f': {reasons}' if reasons else ''}."


def _shapes(shapes: dict[str, list[int]]) -> str:
    return ", ".join("×".join(map(str, shape)) or "scalar" for shape in shapes.values())


def health_section(name: str, title: str, folder: Path) -> Section:
    """Failures by reason, durations and frame rates of the videos of a manifest."""
    from videopipe.dataset.manifest import read_manifest

    section = Section(name, title)
    manifest = read_manifest(folder)
    records = manifest.records
    usable = [record for record in records if record.usable]
    splits = Counter(record.split or "no split" for record in records)
    counted = ", ".join(f"{count} {split}" for split, count in splits.items())
    section.text.append(f"Found as {manifest.layout}: {len(records)} videos ({counted}).")
    section.text.append(f"{len(usable)} can be used, {len(records) - len(usable)} cannot.")
    problems = [record for record in records if record.reason]
    if problems:
        reasons = Counter((r.status, r.reason.partition(":")[0]) for r in problems)
        counts = [(*key, count) for key, count in reasons.most_common(MOST_ROWS)]
        section.tables.append(Table("Problems by reason", ("status", "reason", "videos"), counts))
        rows = [(record.path, record.split, record.status, record.reason) for record in problems]
        columns = ("video", "split", "status", "reason")
        title = "Videos with problems"
        if len(rows) > MOST_ROWS:
            title = f"{MOST_ROWS} of {len(rows)} videos with problems (all are in manifest.jsonl)"
        section.tables.append(Table(title, columns, rows[:MOST_ROWS]))
    durations = [record.duration_seconds for record in usable if record.duration_seconds]
    rates = [record.frame_rate for record in usable if record.frame_rate]
    if durations:
        section.pictures.append(
            plots.histogram(f"{name}-durations", "Duration", durations, x="seconds")
        )
    if rates:
        title = "Frame rate"
        section.pictures.append(
            plots.histogram(f"{name}-rates", title, rates, x="frames per second")
        )
    return section
