"""The timeline of a video as a picture: frames, and below them a bar for each interval."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from videopipe.report.filmstrip import StripRequest, film_strips

WIDTH_PIXELS, BAR_PIXELS, MARGIN_PIXELS = 960, 26, 4
FRAMES_PIXELS = 90
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")  # for colour-blindness
Interval = tuple[float, float, str, float]  # start, end, label, score


def timeline_svg(
    path: str, duration_seconds: float | None, intervals: Sequence[Interval], settings: str
) -> str:
    """An SVG that needs no other file; without frames when the video cannot be decoded."""
    (strip,) = film_strips([StripRequest(Path(path), path)])
    end = duration_seconds or max((interval[1] for interval in intervals), default=1.0)
    labels = list(dict.fromkeys(interval[2] for interval in intervals))
    top = FRAMES_PIXELS if not isinstance(strip, str) else 0
    lines = []
    if not isinstance(strip, str):
        lines.append(
            f'<image href="{strip.image}" width="{WIDTH_PIXELS}" height="{FRAMES_PIXELS}" '
            'preserveAspectRatio="none"/>'
        )
    for start, stop, label, score in intervals:
        left, right = WIDTH_PIXELS * start / end, WIDTH_PIXELS * min(stop, end) / end
        colour = COLOURS[labels.index(label) % len(COLOURS)]
        words = escape(f"{label} {score:.2f}")
        lines.append(
            f'<g><title>{words}, {start:.2f} s to {stop:.2f} s</title><rect x="{left:.1f}" '
            f'y="{top + MARGIN_PIXELS}" width="{right - left:.1f}" height="{BAR_PIXELS}" '
            f'fill="{colour}"/><svg x="{left:.1f}" y="{top + MARGIN_PIXELS}" '
            f'width="{right - left:.1f}" height="{BAR_PIXELS}"><text x="4" y="18" fill="white">'
            f"{words}</text></svg></g>"
        )
    below = top + BAR_PIXELS + 5 * MARGIN_PIXELS
    lines.append(
        f'<text x="0" y="{below}" fill="#555">0 s to {end:.2f} s; {escape(settings)}</text>'
    )
    height = below + 2 * MARGIN_PIXELS
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PIXELS} {height}" '
        f'font-family="sans-serif" font-size="13"><title>{escape(path)}</title>\n'
        + "\n".join(lines)
        + "\n</svg>\n"
    )
