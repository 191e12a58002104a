"""Compare several evaluations in one table, with intervals, cost, plots and the paper's numbers."""

from dataclasses import dataclass
from pathlib import Path

from pretrained_2d.setting import setting
from videopipe.pipeline.stage import Input, Inputs, Kind, Stage, Summary


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """What the rows are compared with."""

    paper: dict[str, float] = setting(
        default_factory=dict,
        help="top-1 of the paper by row: the stage, or `key=value` of a matrix",
        unit="percent",
    )
    reference: str | None = setting(
        None, "row that all others are compared with on the same videos (default: the first)"
    )
    average_over: str | None = setting(
        "split", "key of a matrix whose values are repeats: mean and spread are given over them"
    )


def run(config: CompareConfig, inputs: Inputs, out: Path) -> Summary:
    """Write table.md, table.csv, table.json and the pictures."""
    import json

    from pretrained_2d.atomic import write_text
    from videopipe.evaluation.comparison.table import (
        as_json,
        make_rows,
        pair_rows,
        read_evaluations,
    )
    from videopipe.evaluation.comparison.text import csv_text, markdown
    from videopipe.evaluation.score_table import without_nan
    from videopipe.report.pictures.comparison_plots import draw

    evaluations = read_evaluations(inputs.all("scores"), config.average_over)
    rows = make_rows(evaluations, config.paper)
    reference = config.reference or rows[0].name
    pairs = pair_rows(evaluations, reference)
    whole = {
        **as_json(rows, pairs, reference),
        "time_axis": {e.row: e.metrics.get("time_axis") for e in evaluations},
        "temporal_resolution": {e.row: e.metrics.get("temporal_resolution") for e in evaluations},
    }
    for picture in draw(rows, evaluations):
        picture.save(out)
    write_text(out / "table.csv", csv_text(rows))
    write_text(out / "table.md", markdown(rows, pairs, reference, config.paper))
    write_text(out / "table.json", json.dumps(without_nan(whole), indent=2, allow_nan=False))
    return {"rows": len(rows), "top1": {row.name: round(row.top1, 6) for row in rows}}


STAGE = Stage(
    config=CompareConfig,
    run=run,
    version=2,
    inputs={"scores": Input((Kind.SCORES,), many=True)},
    output=Kind.TABLE,
)
