"""The JSON beside a table: model, settings, number of rows, time, and what took the time."""

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from videopipe.system.status import USED

TableSummary = dict[str, Any]  # JSON
OK = "ok"


def summarise(
    *,
    identity: Mapping[str, Any],
    model: str,
    labels: Sequence[str] | None,
    problems: Sequence[str],
    skipped: Mapping[str, int],
    counts: Mapping[str, int],
    videos: int,
    reports: Sequence[Mapping[str, Any]],
) -> TableSummary:
    """The summary of a table, from the reports of all processes."""
    began = min(report["began"] for report in reports)
    seconds = time.time() - began
    predicted = sum(report.get("videos", 0) for report in reports)
    rows = sum(counts.values())
    return {
        "model": model,
        "videos": videos,
        "rows": rows,
        "ok": counts.get(OK, 0),
        "not_ok": rows - counts.get(OK, 0),
        "statuses": dict(counts),
        "problems": list(problems),
        "files_passed_over": dict(skipped),
        "predicted_in_this_run": predicted,
        "seconds": round(seconds, 3),
        "videos_per_second": round(predicted / seconds, 3) if seconds else None,
        "where_the_time_went": time_spent(reports),
        "processes": len(reports),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "labels": None if labels is None else list(labels),
        "identity": dict(identity),
        "versions": {name: version(name) for name in ("videopipe", "torch", "av")},
    }


def num_scored(summary: TableSummary) -> int:
    """Rows that hold scores."""
    return sum(summary["statuses"].get(status, 0) for status in USED)


def time_spent(reports: Sequence[Mapping[str, Any]]) -> TableSummary:
    """Mean seconds per process, and the slower of decoding and model."""
    names = (
        "starting_seconds",
        "waiting_for_decoders_seconds",
        "waiting_for_model_seconds",
        "writing_seconds",
    )
    spent = {
        name: round(sum(report.get(name, 0.0) for report in reports) / len(reports), 3)
        for name in names
    }
    decoders, model = spent[names[1]], spent[names[2]]
    slower = "decoding (more --workers help)" if decoders > model else "the model"
    return spent | {"bottleneck": slower}
