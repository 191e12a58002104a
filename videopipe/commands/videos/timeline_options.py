"""`predict --timeline`: its options, and the files it writes after the table."""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from videopipe.commands.arguments import name_option
from videopipe.system.progress import counted

if TYPE_CHECKING:
    from videopipe.prediction.timeline.timeline_settings import TimelineSettings
    from videopipe.prediction.timeline.timeline_table import VideoTimeline

PAGE_SUFFIX = ".html"
SETTINGS = ("smooth_seconds", "on", "off", "min_seconds")


def add_timeline(parser: argparse.ArgumentParser) -> None:
    """`--timeline` and its settings."""
    group = parser.add_argument_group("timelines: windows merged into (start, end, label, score)")
    group.add_argument(
        "--timeline", action="append", default=[], metavar="FILE",
        help="write intervals: .parquet, .csv, .jsonl or .arrow rows, .json, a page with bars "
             "under film frames (.html); subtitles (.srt, .vtt) or a picture (.svg), one of these "
             "per video; implies --windows and --scores, and a step of half a clip; repeatable",
    )  # fmt: skip
    for name, metavar, words in (
        ("--smooth-seconds", "SECONDS", "width of the smoothing (default: one clip; 0: none)"),
        ("--on", "P", "probability that an interval must reach (default: 0.5)"),
        ("--off", "P", "probability below which an interval ends (default: 0.3)"),
        ("--min-seconds", "SECONDS", "leave out shorter intervals (default: 0)"),
    ):
        group.add_argument(name, type=float, metavar=metavar, help=words)


def prepare_timelines(args: argparse.Namespace) -> "TimelineSettings":
    """The settings, from the options and the model; sets the windows that they need."""
    from pretrained_2d.checkpoints.folder import read_card
    from videopipe.errors import ConfigError
    from videopipe.prediction.timeline.timeline_files import check_names
    from videopipe.prediction.timeline.timeline_settings import TimelineSettings
    from videopipe.scoring.settings import Scoring

    check_names((Path(name) for name in args.timeline), others=(PAGE_SUFFIX,))
    try:
        shape = Scoring(num_frames=args.num_frames, clip_seconds=args.clip_seconds)
        clip_seconds = shape.clip_shape(read_card(Path(args.model)))[1]
        args.windows = args.scores = True
        args.stride_seconds = args.stride_seconds or clip_seconds / 2
        return TimelineSettings(**_given(args)).for_clips(clip_seconds)
    except ValueError as error:
        raise ConfigError([name_option(error, args)]) from None


def refuse_timeline_options(args: argparse.Namespace) -> None:
    """ConfigError for options of timelines where no timeline is asked for."""
    from videopipe.errors import ConfigError

    if given := _given(args):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError([f"{names}: for timelines only; add --timeline FILE"])


def _given(args: argparse.Namespace) -> dict[str, float]:
    values = {name: getattr(args, name) for name in SETTINGS}
    return {name: value for name, value in values.items() if value is not None}


def write_all(args: argparse.Namespace, table: Path, settings: "TimelineSettings") -> None:
    """Every file that was asked for, from the complete table."""
    from pretrained_2d.checkpoints.folder import read_card
    from videopipe.prediction.timeline.timeline_files import write_timelines
    from videopipe.prediction.timeline.timeline_table import read_timelines

    labels = read_card(Path(args.model)).labels
    videos = segments = 0
    read = partial(read_timelines, table, labels, settings, within_shots=args.within_shots)
    for one in read():
        videos, segments = videos + 1, segments + len(one.segments)
    found = f"{counted(segments, 'interval')} in {counted(videos, 'video')}"
    print(f"{found}; {_words(settings)}", file=sys.stderr)
    for name in args.timeline:
        timelines = read()
        if Path(name).suffix.lower() == PAGE_SUFFIX:
            _write_page(Path(name), timelines, table, settings)
        else:
            write_timelines(Path(name), timelines, settings, one_video=videos == 1, draw=_draw)
        print(_written(Path(name), videos))


def _written(out: Path, videos: int) -> str:
    """The file, or the names of the files of several videos."""
    from videopipe.prediction.timeline.timeline_files import ONE_FILE_PER_VIDEO

    if videos == 1 or out.suffix.lower() not in ONE_FILE_PER_VIDEO:
        return str(out)
    return f"{out.with_suffix('')}.*{out.suffix} ({counted(videos, 'file')})"


def _write_page(
    out: Path, timelines: "Iterable[VideoTimeline]", table: Path, settings: "TimelineSettings"
) -> None:
    from pretrained_2d.atomic import write_text
    from videopipe.prediction.timeline.timeline_files import as_json
    from videopipe.report.page import Section, render
    from videopipe.report.sections.predictions import add_timelines

    section = Section("timelines", "Timelines")
    add_timelines(section, map(as_json, timelines), _words(settings))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, render(f"Timelines of {table.name}", str(table), [section]))


def _draw(one: "VideoTimeline", settings: "TimelineSettings") -> str:
    from videopipe.dataset.lists.video_range import text_as_path
    from videopipe.report.pictures.timeline_strip import TimelineRequest, timeline_svgs

    request = TimelineRequest(text_as_path(one.path), one.duration_seconds, one.segments, one.error)
    ((svg, _),) = timeline_svgs([request], _words(settings))
    return svg


def _words(settings: "TimelineSettings") -> str:
    return ", ".join(f"{name} {value:g}" for name, value in asdict(settings).items())
