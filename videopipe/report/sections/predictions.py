"""The section of a page that shows a table of predictions and its timelines."""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from videopipe.dataset.lists.video_range import text_as_path
from videopipe.report.page import MOST_ROWS, Section, Table
from videopipe.report.pictures.canvas import Picture
from videopipe.report.pictures.timeline_strip import TimelineRequest, timeline_svgs
from videopipe.system.progress import counted

TIMELINE_FILE = "timeline.json"
MOST_STRIPS = 12
Timeline = Mapping[str, Any]  # a video of a timeline file: path, duration_seconds, segments


def prediction_section(name: str, title: str, folder: Path) -> Section:
    """The result of `predict` in `folder`: rows per status, and the timelines, if it has any."""
    section = Section(name, title)
    for file in sorted(folder.glob("predictions.*.summary.json")):
        summary = json.loads(file.read_text())
        table = file.name.removesuffix(".summary.json")
        section.text.append(f"{summary['videos']} videos, {summary['rows']} rows in {table}.")
        statuses = list(summary["statuses"].items())
        section.tables.append(Table("Rows by status", ("status", "rows"), statuses))
        section.missing += summary["problems"]
    if (folder / TIMELINE_FILE).is_file():
        content = json.loads((folder / TIMELINE_FILE).read_text())
        words = ", ".join(f"{key} {value:g}" for key, value in content["settings"].items())
        add_timelines(section, content["videos"], words)
    return section


def add_timelines(section: Section, timelines: Iterable[Timeline], settings: str) -> None:
    """The intervals as a table, and as bars under the frames of the first videos that have any."""
    rows: list[tuple[str, float, float, str, float]] = []
    shown: list[TimelineRequest] = []
    videos = intervals = failures = 0
    for one in timelines:
        segments = [
            (part["start_seconds"], part["end_seconds"], part["label"], part["score"])
            for part in one["segments"]
        ]
        videos, intervals = videos + 1, intervals + len(segments)
        rows += islice(((one["path"], *part) for part in segments), MOST_ROWS - len(rows))
        if (error := one.get("error")) and failures < MOST_STRIPS:
            section.missing.append(f"no timeline of {one['path']}: {error}")
            failures += 1
        if segments and len(shown) < MOST_STRIPS:
            path = text_as_path(one["path"])
            shown.append(TimelineRequest(path, one["duration_seconds"], segments))
    found = f"{counted(intervals, 'interval')} in {counted(videos, 'video')}"
    section.text.append(f"{found}; {settings}.")
    for number, (svg, reason) in enumerate(timeline_svgs(shown, settings)):
        path = shown[number].path
        words = f"Timeline of {path}: frames from start to end, and the intervals below them"
        section.pictures.append(Picture(f"{section.name}-{number}", path, words, svg, wide=True))
        if reason:
            section.missing.append(f"frames of {path}: {reason}")
    if rows:
        title = "Intervals"
        if intervals > len(rows):
            title = f"{len(rows)} of {intervals} intervals"
        columns = ("video", "start (s)", "end (s)", "label", "score")
        section.tables.append(Table(title, columns, rows))
