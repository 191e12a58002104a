"""Timelines as files: rows for tools, JSON, and subtitles for players (SRT, WebVTT)."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from pretrained_2d.atomic import write_text
from videopipe.errors import ConfigError
from videopipe.prediction.table.formats import FORMATS
from videopipe.prediction.table.table_format import as_table
from videopipe.prediction.timeline.segments import Segment
from videopipe.prediction.timeline.timeline_settings import TimelineSettings
from videopipe.prediction.timeline.timeline_table import VideoTimeline

ROWS_PER_GROUP = 4096
TABLES = (".parquet", ".csv", ".jsonl", ".arrow")
ROWS = pa.schema(
    [
        ("id", pa.string()),
        ("path", pa.string()),
        ("start_seconds", pa.float64()),
        ("end_seconds", pa.float64()),
        ("label", pa.string()),
        ("score", pa.float64()),
    ]
)
Draw = Callable[[VideoTimeline, TimelineSettings], str]  # a file for one video, as text


def check_names(outs: Iterable[Path], others: Sequence[str] = ()) -> None:
    """ConfigError for a suffix that names no form of timelines; `others` are written elsewhere."""
    known = (*TABLES, ".json", *ONE_FILE_PER_VIDEO, *others)
    problems = [
        f"--timeline is '{out}'; expected a name ending in {', '.join(known)}"
        for out in outs
        if out.suffix.lower() not in known
    ]
    if problems:
        raise ConfigError(problems)


def write_timelines(
    out: Path,
    timelines: Iterable[VideoTimeline],
    settings: TimelineSettings,
    *,
    one_video: bool,
    draw: Draw | None = None,
) -> None:
    """Write `out`; for subtitles and pictures one file per video.

    With one video that file is `out` itself, else files are called `out.NAME.ID.vtt` after their
    videos. `draw` makes a picture (.svg).
    """
    suffix = out.suffix.lower()
    out.parent.mkdir(parents=True, exist_ok=True)
    if suffix in TABLES:
        _write_rows(out, timelines)
    elif suffix == ".json":
        content = {"settings": asdict(settings), "videos": [as_json(one) for one in timelines]}
        write_text(out, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    else:
        make = draw if draw is not None and suffix == ".svg" else SUBTITLES[suffix]
        for one in timelines:
            name = f"{out.stem}.{Path(one.path).stem}.{one.id[:8]}{out.suffix}"
            write_text(out if one_video else out.with_name(name), make(one, settings))


def as_json(one: VideoTimeline) -> dict[str, Any]:
    """A video and its intervals as in a .json file."""
    return {
        "id": one.id,
        "path": one.path,
        "duration_seconds": one.duration_seconds,
        "segments": [segment._asdict() for segment in one.segments],
        "error": one.error,
    }


def _write_rows(out: Path, timelines: Iterable[VideoTimeline]) -> None:
    def tables() -> Iterator[pa.Table]:
        rows = []
        for one in timelines:
            about = {"id": one.id, "path": one.path}
            rows += [about | segment._asdict() for segment in one.segments]
            if len(rows) >= ROWS_PER_GROUP:
                yield as_table(rows, ROWS)
                rows = []
        yield as_table(rows, ROWS)

    FORMATS[out.suffix.lower()].save(out, ROWS, tables())


def _srt(one: VideoTimeline, _: TimelineSettings) -> str:
    cues = [
        f"{number}\n{_clock(segment.start_seconds, ',')} --> {_clock(segment.end_seconds, ',')}\n"
        f"{_caption(segment)}\n"
        for number, segment in enumerate(one.segments, 1)
    ]
    return "\n".join(cues)


def _vtt(one: VideoTimeline, settings: TimelineSettings) -> str:
    words = ", ".join(f"{name} {value:g}" for name, value in asdict(settings).items())
    if one.error is not None:
        words += f"\n\nNOTE no result: {_escaped(one.error)}"
    cues = [
        f"{_clock(segment.start_seconds, '.')} --> {_clock(segment.end_seconds, '.')}\n"
        f"{_escaped(_caption(segment))}\n"
        for segment in one.segments
    ]
    return "\n".join([f"WEBVTT\n\nNOTE {words}\n", *cues])


def _caption(segment: Segment) -> str:
    return f"{' '.join(segment.label.split())} ({segment.score:.2f})"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"


SUBTITLES: dict[str, Draw] = {".srt": _srt, ".vtt": _vtt}
ONE_FILE_PER_VIDEO = (*SUBTITLES, ".svg")
