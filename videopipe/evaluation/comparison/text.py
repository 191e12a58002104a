"""A comparison as Markdown and as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from videopipe.evaluation.comparison.table import ComparisonRow
from videopipe.evaluation.statistics import PairedComparison

PAPER_PROTOCOL_NOTE = (
    "Protocol `paper`: the checkpoint was chosen on the test videos, as the authors did, so these "
    "numbers are too high for new videos."
)


def markdown(
    rows: Sequence[ComparisonRow],
    pairs: Mapping[str, PairedComparison],
    reference: str,
    paper_percent: Mapping[str, float],
) -> str:
    """The table of accuracies, the paired comparisons, and notes."""
    headings = ["", "paper", "here", "95 % interval", "top-5", "mean class", "parameters"]
    headings += ["s / step", "memory"]
    lines = [headings] + [_cells(row) for row in rows]
    text = _table(lines)
    if pairs:
        tests = " and ".join(sorted({pair.test for pair in pairs.values()}))
        text += f"\nDifferences in top-1 to `{reference}`, on the same videos ({tests} test):\n\n"
        paired = [["", "points", "95 % interval", "only this / only reference", "p"]]
        text += _table(paired + [_pair_cells(name, pair) for name, pair in pairs.items()])
    return text + "".join(f"\n{note}\n" for note in notes(rows, paper_percent))


def notes(rows: Sequence[ComparisonRow], paper_percent: Mapping[str, float]) -> list[str]:
    """Notes below the table: videos, intervals, protocol."""
    videos, recordings = ([getattr(row, key) for row in rows] for key in ("videos", "recordings"))
    found = [f"Top-1 over {_span(videos)} videos of {_span(recordings)} recordings."]
    if recordings == videos:
        found = [f"Top-1 over {_span(videos)} videos."]
    found[0] += " Intervals: Wilson, 95 %; videos of one recording are not independent."
    if any(row.repeats > 1 for row in rows):
        found.append(
            "± is the standard deviation over the repeats (splits or seeds). Intervals and "
            "p-values allow for the videos that repeats share and for the variation between them."
        )
    if any(row.protocol == "paper" for row in rows):
        found.append(PAPER_PROTOCOL_NOTE)
    if any(row.failed for row in rows):
        unread = ", ".join(f"{row.name}: {row.failed}" for row in rows if row.failed)
        found.append(f"Videos that could not be read, counted as mistakes: {unread}.")
    for stage in sorted(set(paper_percent) - {row.name for row in rows}):
        value = paper_percent[stage]
        found.append(f"The paper has {value:g} for `{stage}`, which is several rows here.")
    return found


def csv_text(rows: Sequence[ComparisonRow]) -> str:
    """One line per row, every field."""
    sink = io.StringIO()
    writer = csv.DictWriter(
        sink, [field.name for field in fields(ComparisonRow)], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return sink.getvalue()


def _cells(row: ComparisonRow) -> list[str]:
    here = percent(row.top1) + ("" if row.deviation is None else f" ± {100 * row.deviation:.1f}")
    memory = row.peak_memory_bytes
    return [
        row.name,
        "" if row.paper is None else percent(row.paper),
        here,
        f"{percent(row.low)} to {percent(row.high)}",
        percent(row.top5),
        percent(row.mean_class),
        "" if row.parameters is None else f"{row.parameters / 1e6:.2f} M",
        "" if row.seconds_per_step is None else f"{row.seconds_per_step:.3g}",
        "" if memory is None else f"{memory / 2**30:.2f} GiB",
    ]


def _pair_cells(name: str, pair: PairedComparison) -> list[str]:
    return [
        name,
        f"{100 * pair.difference:+.1f}",
        f"{100 * pair.low:+.1f} to {100 * pair.high:+.1f}",
        f"{pair.only_second} / {pair.only_first}",
        f"{pair.p_value:.2g}",
    ]


def percent(share: float) -> str:
    """0.6207 -> "62.1"."""
    return f"{100 * share:.1f}"


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _table(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first line holds the headings. Bars inside cells are escaped."""
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    body.insert(1, "|" + "---|" * len(lines[0]))
    return "\n".join(body) + "\n"
