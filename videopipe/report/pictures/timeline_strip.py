"""The timeline of a video as a picture: frames, and below them a bar for each interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from videopipe.report.page import Strip
from videopipe.report.pictures.filmstrip import StripRequest, film_strips

WIDTH_PIXELS, BAR_PIXELS, MARGIN_PIXELS = 960, 26, 4
COLOURS = ("#4477aa", "#c4344a", "#228833", "#8a7a14", "#1f7f9c", "#aa3377")  # for white text
Interval = tuple[float, float, str, float]  # start, end, label, score


@dataclass(frozen=True)
class TimelineRequest:
    """A video, and the intervals to draw below its frames."""

    path: str
    duration_seconds: float | None
    intervals: Sequence[Interval]
    error: str | None = None  # why there are none


def timeline_svgs(requests: Sequence[TimelineRequest], settings: str) -> list[tuple[str, str]]:
    """Per video an SVG that needs no other file, and the reason why it has no frames, or "".

    A label has one colour in all of them. A video that cannot be decoded has bars only.
    """
    names = dict.fromkeys(interval[2] for one in requests for interval in one.intervals)
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    strips = film_strips([StripRequest(one.path, one.path) for one in requests])
    return [
        (_svg(one, strip if isinstance(strip, Strip) else None, colours, settings),
         "" if isinstance(strip, Strip) else strip)
        for one, strip in zip(requests, strips, strict=True)
    ]  # fmt: skip


def _svg(one: TimelineRequest, strip: Strip | None, colours: dict[str, str], settings: str) -> str:
    end = one.duration_seconds or max((interval[1] for interval in one.intervals), default=1.0)
    top, lines = 0, []
    if strip is not None:
        top = round(WIDTH_PIXELS * strip.height / strip.width)
        lines.append(
            f'<image href="{strip.image}" width="{WIDTH_PIXELS}" height="{top}" '
            'preserveAspectRatio="none"/>'
        )
    for start, stop, label, score in one.intervals:
        left, right = WIDTH_PIXELS * start / end, WIDTH_PIXELS * min(stop, end) / end
        words = escape(f"{label} {score:.2f}")
        lines.append(
            f'<g><title>{words}, {start:.2f} s to {stop:.2f} s</title><rect x="{left:.1f}" '
            f'y="{top + MARGIN_PIXELS}" width="{max(right - left - 1, 1):.1f}" '
            f'height="{BAR_PIXELS}" fill="{colours[label]}"/><svg x="{left:.1f}" '
            f'y="{top + MARGIN_PIXELS}" width="{right - left:.1f}" height="{BAR_PIXELS}">'
            f'<text x="4" y="18" fill="white">{words}</text></svg></g>'
        )
    words = f"0 s to {end:.2f} s" if one.error is None else f"no result: {one.error}"
    below = top + BAR_PIXELS + 5 * MARGIN_PIXELS
    lines.append(
        f'<text x="0" y="{below}" fill="currentColor">{escape(f"{words}; {settings}")}</text>'
    )
    height = below + 2 * MARGIN_PIXELS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PIXELS} {height}" '
        f'font-family="sans-serif" font-size="13"><title>{escape(one.path)}</title>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )
