"""The rows of a comparison: names, means over repeats, paired comparisons."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from videopipe.errors import DataError
from videopipe.evaluation.score_table import Metrics, ScoreTable, read_metrics, read_scores
from videopipe.evaluation.statistics import PairedComparison, compare_paired, proportion
from videopipe.pipeline.document.scalars import shown
from videopipe.pipeline.stage import Result


@dataclass(frozen=True)
class Evaluation:
    """One evaluation, with the row and the repeat that it belongs to."""

    row: str
    stage: str
    repeat: str  # "split=2"; empty when nothing is repeated
    metrics: Metrics
    table: ScoreTable


@dataclass(frozen=True)
class ComparisonRow:
    """One model, averaged over its repeats. Accuracies are in [0, 1]."""

    name: str
    top1: float
    low: float
    high: float
    deviation: float | None  # over the repeats; None for one
    repeats: int
    top5: float
    mean_class: float
    videos: int  # different ones, over all repeats
    recordings: int
    failed: int
    paper: float | None  # top-1 of the paper, in [0, 1]
    parameters: int | None
    seconds_per_step: float | None
    peak_memory_bytes: int | None
    protocol: str | None


def read_evaluations(results: Sequence[Result], average_over: str | None) -> list[Evaluation]:
    """Read every evaluation and name its row.

    A name consists of the matrix keys that differ between evaluations, and of the stage where these
    are not unique. Evaluations that differ in the key `average_over` are repeats of one row. A key
    that several stages vary, such as the seed of two fine-tunings, carries the name of its stage:
    `tuned.recipe.seed`.
    """
    keys = dict.fromkeys(key for result in results for key in result.variant)
    repeated = {key for key in keys if average_over and f".{key}".endswith(f".{average_over}")}
    varying = [
        key
        for key in keys
        if key not in repeated and len({str(result.variant.get(key)) for result in results}) > 1
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
        values = [result.variant[key] for key in result.variant if key in repeated]
        repeat = " ".join(f"{average_over}={value}" for value in values)
        metrics, table = read_metrics(result.folder), read_scores(result.folder)
        if table.multi_label:
            raise DataError(
                f"stage '{result.stage}' evaluated multi-label data; a comparison is of accuracies "
                "on data with one label per video. Take the stage out of its inputs"
            )
        found.append(Evaluation(name, result.stage, repeat, metrics, table))
    return found


def make_rows(
    evaluations: Sequence[Evaluation], paper_percent: Mapping[str, float]
) -> list[ComparisonRow]:
    """One row per name, in order of appearance; `paper_percent` names rows of the table.

    It may also name a stage that a matrix expands into several rows; then a note states its value.
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
    """The evaluations of each row; two of the same row and repeat are an error."""
    by_name: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        group = by_name.setdefault(evaluation.row, [])
        if any(other.repeat == evaluation.repeat for other in group):
            raise DataError(f"compare: two evaluations are both {evaluation.row!r}; rename a stage")
        group.append(evaluation)
    return by_name


def _row(name: str, group: Sequence[Evaluation], paper_percent: float | None) -> ComparisonRow:
    values = [evaluation.metrics["top1"]["value"] for evaluation in group]
    correct = _correct(group)
    interval = proportion(
        np.array(list(correct.values())),
        [seen.recording for seen in correct],
        [seen.repeat for seen in correct],
    )
    protocols = {str(evaluation.metrics.get("protocol")) for evaluation in group}
    return ComparisonRow(
        name=name,
        top1=interval.value,
        low=interval.low,
        high=interval.high,
        deviation=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        repeats=len(values),
        top5=float(np.mean([evaluation.metrics["top5"]["value"] for evaluation in group])),
        mean_class=float(np.mean([evaluation.metrics["mean_class"] for evaluation in group])),
        videos=len({(seen.path, seen.occurrence) for seen in correct}),
        recordings=len({seen.recording for seen in correct}),
        failed=sum(evaluation.metrics["failed"] for evaluation in group),
        paper=None if paper_percent is None else paper_percent / 100,
        parameters=_first(group, "model", "parameters"),
        seconds_per_step=_first(group, "training", "seconds_per_step"),
        peak_memory_bytes=_first(group, "training", "peak_memory_bytes"),
        protocol=protocols.pop() if len(protocols) == 1 else "mixed",
    )


def _first(group: Sequence[Evaluation], section: str, key: str) -> Any:
    """A value that all repeats share, from the first that has it."""
    stated = ((evaluation.metrics.get(section) or {}).get(key) for evaluation in group)
    return next((value for value in stated if value is not None), None)


def pair_rows(evaluations: Sequence[Evaluation], reference: str) -> dict[str, PairedComparison]:
    """Compare every other row to `reference`, on the videos and repeats that both contain."""
    correct = {name: _correct(group) for name, group in group_by_row(evaluations).items()}
    if reference not in correct:
        raise DataError(
            f"compare: the reference {reference!r} is not a row of this table; "
            f"its rows are {', '.join(correct)}"
        )
    base = correct.pop(reference)
    pairs = {}
    for name, own in correct.items():
        shared = [seen for seen in base if seen in own]
        if shared:
            pairs[name] = compare_paired(
                np.array([base[seen] for seen in shared]),
                np.array([own[seen] for seen in shared]),
                [seen.recording for seen in shared],
                [seen.repeat for seen in shared],
            )
    return pairs


class _Observation(NamedTuple):
    """One video in one repeat. A file with several labelled ranges occurs several times."""

    repeat: str
    path: str
    occurrence: int
    recording: str


def _correct(group: Sequence[Evaluation]) -> dict[_Observation, bool]:
    """Whether each video was classified right, in each repeat."""
    found = {}
    for evaluation in group:
        table, occurrences = evaluation.table, Counter[str]()
        for path, recording, rank in zip(table.paths, table.recordings, table.ranks(), strict=True):
            occurrences[path] += 1
            seen = _Observation(evaluation.repeat, path, occurrences[path], recording)
            found[seen] = bool(rank == 0)
    return found


def as_json(
    rows: Sequence[ComparisonRow], pairs: Mapping[str, PairedComparison], reference: str
) -> Metrics:
    """The comparison as JSON."""
    return {
        "rows": [asdict(row) for row in rows],
        "reference": reference,
        "paired": {name: asdict(pair) for name, pair in pairs.items()},
    }
