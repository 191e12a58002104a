"""From evaluations to the rows of a table: naming, repeats averaged, pairs compared."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from videopipe.errors import DataError
from videopipe.evaluation import Metrics, ScoreTable, read_metrics, read_scores
from videopipe.stage import Result, shown
from videopipe.statistics import PairedComparison, compare_paired, proportion, spread


@dataclass(frozen=True)
class Evaluation:
    """One evaluation as the comparison sees it: the row it belongs to and which repeat it is."""

    row: str
    stage: str
    repeat: str  # "split=2"; empty when nothing is repeated
    metrics: Metrics
    table: ScoreTable


@dataclass(frozen=True)
class Row:
    """One line of the table: one model, maybe over several repeats. Accuracies in [0, 1]."""

    name: str
    top1: float
    low: float
    high: float
    deviation: float | None  # over the repeats; None for one
    repeats: int
    top5: float
    mean_class: float
    videos: int
    failed: int
    paper: float | None  # top-1 of the paper, in [0, 1]
    parameters: int | None
    seconds_per_step: float | None
    peak_memory_bytes: int | None
    protocol: str | None


def read_evaluations(results: Sequence[Result], average_over: str | None) -> list[Evaluation]:
    """Read every evaluation and name its row by what tells it from the others.

    That is the place in the matrix, and the stage where this is not enough; the key `average_over`
    (the split) makes repeats of one row.
    """
    varying = [
        key
        for key in dict.fromkeys(key for result in results for key in result.variant)
        if key != average_over and len({str(result.variant.get(key)) for result in results}) > 1
    ]
    places = [
        " ".join(f"{key}={shown(result.variant[key])}" for key in varying if key in result.variant)
        for result in results
    ]
    stages_at = {place: set[str]() for place in places}
    for result, place in zip(results, places, strict=True):
        stages_at[place].add(result.stage)
    found = []
    for result, place in zip(results, places, strict=True):
        unique = place and len(stages_at[place]) == 1
        name = place if unique else f"{result.stage} {place}".strip()
        repeat = ""
        if average_over is not None and average_over in result.variant:
            repeat = f"{average_over}={result.variant[average_over]}"
        metrics, table = read_metrics(result.folder), read_scores(result.folder)
        found.append(Evaluation(name, result.stage, repeat, metrics, table))
    return found


def make_rows(evaluations: Sequence[Evaluation], paper_percent: Mapping[str, float]) -> list[Row]:
    """One row per name, in order of appearance; `paper_percent` names rows of the table.

    It may also name a stage that a matrix has spread over several rows; none of them is its row.
    """
    by_name = group_by_row(evaluations)
    stages = {evaluation.stage for evaluation in evaluations}
    unknown = sorted(set(paper_percent) - set(by_name) - stages)
    if unknown:
        raise DataError(
            f"compare: `paper` names {', '.join(unknown)}, but the rows of this table are "
            f"{', '.join(by_name)}"
        )
    return [_row(name, group, paper_percent.get(name)) for name, group in by_name.items()]


def group_by_row(evaluations: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    """The evaluations of each row; two that claim the same place are an error."""
    by_name: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        group = by_name.setdefault(evaluation.row, [])
        if any(other.repeat == evaluation.repeat for other in group):
            raise DataError(
                f"compare: two evaluations are both {evaluation.row!r}; name them apart"
            )
        group.append(evaluation)
    return by_name


def _row(name: str, group: Sequence[Evaluation], paper_percent: float | None) -> Row:
    values = [evaluation.metrics["top1"]["value"] for evaluation in group]
    over = spread(values)
    correct, trials = _counts(group)
    interval = proportion(correct, trials)
    protocols = {str(evaluation.metrics.get("protocol")) for evaluation in group}
    return Row(
        name=name,
        top1=interval.value,
        low=interval.low,
        high=interval.high,
        deviation=over.deviation,
        repeats=over.count,
        top5=float(np.mean([evaluation.metrics["top5"]["value"] for evaluation in group])),
        mean_class=float(np.mean([evaluation.metrics["mean_class"] for evaluation in group])),
        videos=trials,
        failed=sum(evaluation.metrics["failed"] for evaluation in group),
        paper=None if paper_percent is None else paper_percent / 100,
        parameters=_first(group, "model", "parameters"),
        seconds_per_step=_first(group, "training", "seconds_per_step"),
        peak_memory_bytes=_first(group, "training", "peak_memory_bytes"),
        protocol=protocols.pop() if len(protocols) == 1 else "mixed",
    )


def _counts(group: Sequence[Evaluation]) -> tuple[int, int]:
    """Right videos and all videos, for the interval.

    Folds that share no video are pooled. The splits of HMDB-51 share many, so that three of them
    know little more than one: then the counts are those of one split, on average.
    """
    correct = [evaluation.metrics["top1"]["successes"] for evaluation in group]
    trials = [evaluation.metrics["top1"]["trials"] for evaluation in group]
    paths = [path for evaluation in group for path in evaluation.table.paths]
    repeats = 1 if len(set(paths)) == len(paths) else len(group)
    return round(sum(correct) / repeats), round(sum(trials) / repeats)


def _first(group: Sequence[Evaluation], section: str, key: str) -> Any:
    """A number that all repeats share, from the first that states it."""
    stated = ((evaluation.metrics.get(section) or {}).get(key) for evaluation in group)
    return next((value for value in stated if value is not None), None)


def pair_rows(evaluations: Sequence[Evaluation], reference: str) -> dict[str, PairedComparison]:
    """Every other row against `reference`, on the videos (and repeats) both have seen."""
    correct = {name: _correct(group) for name, group in group_by_row(evaluations).items()}
    if reference not in correct:
        raise DataError(
            f"compare: the reference {reference!r} is not a row of this table; "
            f"its rows are {', '.join(correct)}"
        )
    base = correct.pop(reference)
    pairs = {}
    for name, own in correct.items():
        shared = [key for key in base if key in own]
        if shared:
            first = np.array([base[key] for key in shared])
            pairs[name] = compare_paired(first, np.array([own[key] for key in shared]))
    return pairs


def _correct(group: Sequence[Evaluation]) -> dict[tuple[str, str], bool]:
    return {
        (evaluation.repeat, path): bool(rank == 0)
        for evaluation in group
        for path, rank in zip(evaluation.table.paths, evaluation.table.ranks(), strict=True)
    }


def as_json(rows: Sequence[Row], pairs: Mapping[str, PairedComparison], reference: str) -> Metrics:
    """The whole comparison as plain values."""
    return {
        "rows": [asdict(row) for row in rows],
        "reference": reference,
        "paired": {name: asdict(pair) for name, pair in pairs.items()},
    }
