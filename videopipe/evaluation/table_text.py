"""The numbers of one evaluation as a table in plain text."""

from collections.abc import Sequence

from videopipe.evaluation.score_table import Metrics

NUM_CLASSES = 10  # the lowest, of those with videos


def table_text(metrics: Metrics, *, all_classes: bool = False) -> str:
    """Values in percent with their 95 % intervals, then classes, the lowest first."""
    if metrics.get("multi_label"):
        entries = [("mean average precision", metrics["mean_average_precision"])]
    else:
        entries = [("top-1", metrics["top1"]), ("top-5", metrics["top5"])]
    rows = [[name, _percent(entry["value"]), _interval(entry)] for name, entry in entries]
    if "mean_class" in metrics:
        rows.append(["mean of classes", _percent(metrics["mean_class"]), ""])
    classes = sorted(metrics["per_class"], key=lambda entry: float(entry["value"]))
    shown = classes if all_classes else classes[:NUM_CLASSES]
    rows += [
        [
            f"  {entry['label']}",
            _percent(entry["value"]),
            f"{_interval(entry)}   ({entry.get('trials', entry.get('positives'))} videos)",
        ]
        for entry in shown
    ]
    lines = _aligned([["", "%", "95 % interval"], *rows])
    if len(shown) < len(classes):
        lines.append(f"  … and {len(classes) - len(shown)} classes above these")
    counted = f"{metrics['videos']} videos of {metrics['recordings']} recordings"
    if metrics["failed"]:
        counted += f"; {metrics['failed']} could not be read and count as mistakes"
    return "\n".join([*lines, f"{counted}. {metrics['protocol_note']}"])


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _interval(entry: Metrics) -> str:
    return f"{_percent(entry['low'])} to {_percent(entry['high'])}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width: the first to the left, the second to the right."""
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"{row[0]:<{names}}  {row[1]:>{values}}   {row[2]}".rstrip() for row in rows]
