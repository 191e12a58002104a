"""Metrics of multi-label data: average precision by class, and its mean with an interval.

The average precision of a class ranks all videos by the class's score and is the sum over distinct
scores, from high to low, of (recall gained) × (precision so far). Videos with equal scores enter
together, so their order does not matter. A video without scores ranks last. Classes without a
positive video have no average precision and are left out of the mean.
"""

from typing import Any

import numpy as np

from videopipe.evaluation.score_table import Metrics, ScoreTable
from videopipe.evaluation.statistics import Booleans, Floats

RESAMPLES = 1000
RESAMPLES_AT_ONCE = 50  # bounds the memory
CONFIDENCE = 0.95


def average_precision(scores: Floats, positive: Booleans, weights: Floats | None = None) -> Any:
    """Average precision of one class: scores (videos,), positives (videos,) -> NaN without any.

    `weights` (resamples, videos): how often each video counts; the result is then (resamples,).
    """
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # the end of each group of equal scores
    counts = np.ones((1, len(scores))) if weights is None else weights[:, order]
    seen = np.cumsum(counts, axis=1)[:, last]  # (resamples, groups)
    hits = np.cumsum(counts * positive[order], axis=1)[:, last]
    gained = np.diff(hits, axis=1, prepend=0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(seen > 0, hits / seen, 0.0)
        found = (gained * precision).sum(axis=1) / hits[:, -1]
    return found if weights is not None else float(found[0])


def mean_average_precision(table: ScoreTable) -> float:
    """The mean over the classes that have a positive video."""
    scores = _ranked_scores(table)
    shown = np.flatnonzero(table.targets.any(axis=0))
    if not len(shown):
        return float("nan")
    return float(np.mean([average_precision(scores[:, i], table.targets[:, i]) for i in shown]))


def measure_multi_label(table: ScoreTable) -> Metrics:
    """All numbers of one evaluation of multi-label data.

    Intervals are percentiles of a bootstrap over recordings, with a fixed seed.
    """
    scores, targets = _ranked_scores(table), table.targets
    shown = [int(i) for i in np.flatnonzero(targets.any(axis=0))]
    values = [average_precision(scores[:, i], targets[:, i]) for i in shown]
    resampled = _bootstrap(scores[:, shown], targets[:, shown], table.recordings)
    drawn = resampled[np.isfinite(resampled).any(axis=1)] if shown else np.empty((0, 1))
    means = np.nanmean(drawn, axis=1) if len(drawn) else np.empty(0)
    return {
        "multi_label": True,
        "videos": len(table.paths),
        "recordings": len(set(table.recordings)),
        "failed": int((~table.readable).sum()),
        "clips": int(table.clips.sum()),
        "num_classes": len(table.labels),
        "labels": list(table.labels),
        "mean_average_precision": {
            "value": float(np.mean(values)) if values else float("nan"),
            **_interval(means),
        },
        "classes_without_positives": [
            name for i, name in enumerate(table.labels) if i not in set(shown)
        ],
        "per_class": [
            {
                "label": table.labels[i],
                "value": value,
                **_interval(resampled[:, place]),
                "positives": int(targets[:, i].sum()),
            }
            for place, (i, value) in enumerate(zip(shown, values, strict=True))
        ],
    }


def _ranked_scores(table: ScoreTable) -> Floats:
    """(videos, classes); a video without scores ranks below all others."""
    return np.where(table.readable[:, None], table.scores, -1.0)


def _bootstrap(scores: Floats, targets: Booleans, recordings: tuple[str, ...]) -> Floats:
    """(resamples, classes) average precisions of videos drawn by recording, with replacement."""
    names, recording = np.unique(recordings, return_inverse=True)
    random = np.random.default_rng(0)
    parts = []
    for _ in range(RESAMPLES // RESAMPLES_AT_ONCE):
        draws = random.multinomial(
            len(names), np.full(len(names), 1 / len(names)), RESAMPLES_AT_ONCE
        )  # (resamples, recordings)
        weights = draws[:, recording].astype(float)  # (resamples, videos)
        parts.append(
            np.stack(
                [
                    average_precision(scores[:, i], targets[:, i], weights)
                    for i in range(targets.shape[1])
                ],
                axis=1,
            )
            if targets.shape[1]
            else np.empty((RESAMPLES_AT_ONCE, 0))
        )
    return np.concatenate(parts)


def _interval(resampled: Floats) -> dict[str, float]:
    finite = resampled[np.isfinite(resampled)]
    if not len(finite):
        return {"low": 0.0, "high": 1.0}
    edges = (1 - CONFIDENCE) / 2
    low, high = np.quantile(finite, [edges, 1 - edges])
    return {"low": float(low), "high": float(high)}
