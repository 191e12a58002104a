"""Average precision against its definition, intervals, and tables of multi-label data."""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from videopipe.evaluation import multi_label
from videopipe.evaluation.multi_label import (
    average_precision,
    mean_average_precision,
    measure_multi_label,
)
from videopipe.evaluation.score_table import ScoreTable, read_scores, write_evaluation
from videopipe.evaluation.table_text import table_text


def by_definition(scores: Sequence[float], positive: Sequence[bool]) -> Fraction:
    """For every threshold from high to low: recall gained times precision, in exact numbers."""
    total, before, found = sum(positive), 0, Fraction(0)
    for threshold in sorted(set(scores), reverse=True):
        kept = [shown for score, shown in zip(scores, positive, strict=True) if score >= threshold]
        hits = sum(kept)
        found += Fraction(hits - before, total) * Fraction(hits, len(kept))
        before = hits
    return found


VIDEO = st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3))


@given(st.lists(VIDEO, min_size=1, max_size=12))
def test_average_precision_is_that_of_the_definition(videos: list[tuple[int, bool, int]]) -> None:
    scores, positive, counts = (np.array(column) for column in zip(*videos, strict=True))
    found = average_precision(scores / 5, positive)
    if positive.any():
        assert found == pytest.approx(float(by_definition(scores.tolist(), positive.tolist())))
    else:
        assert math.isnan(found)
    # A weight of n is the video n times.
    (weighted,) = average_precision(scores / 5, positive, counts[None].astype(float))
    repeated = positive.repeat(counts)
    if repeated.any():
        exact = by_definition(scores.repeat(counts).tolist(), repeated.tolist())
        assert weighted == pytest.approx(float(exact))


def make_table(videos: int = 60, seed: int = 0) -> ScoreTable:
    random = np.random.default_rng(seed)
    targets = random.random((videos, 3)) < [0.5, 0.3, 0.0]
    scores = (0.6 * targets + 0.4 * random.random((videos, 3))).astype(np.float32)
    scores[:, 1] = random.random(videos)
    return ScoreTable(
        labels=("easy", "guessed", "absent"),
        paths=tuple(f"{number}.mp4" for number in range(videos)),
        targets=targets,
        clips=np.ones(videos, dtype=np.int64),
        scores=scores,
        reasons=("",) * videos,
    )


def test_the_mean_is_over_classes_with_videos_and_has_an_interval() -> None:
    table = make_table()
    metrics = measure_multi_label(table)
    easy, guessed = metrics["per_class"]
    assert (easy["label"], easy["value"], easy["low"], easy["high"]) == ("easy", 1.0, 1.0, 1.0)
    assert guessed["low"] < guessed["value"] < guessed["high"]
    assert metrics["classes_without_positives"] == ["absent"]
    mean = metrics["mean_average_precision"]
    assert mean["value"] == pytest.approx((1 + guessed["value"]) / 2)
    assert mean["value"] == mean_average_precision(table)
    assert mean["low"] < mean["value"] < mean["high"]
    assert measure_multi_label(table) == metrics, "the bootstrap has a fixed seed"
    grouped = ScoreTable(**{**vars(table), "recordings": tuple(str(i // 10) for i in range(60))})
    assert measure_multi_label(grouped)["recordings"] == 6


def test_a_video_without_scores_ranks_last_and_is_counted(tmp_path: Path) -> None:
    table = make_table()
    lost = int(np.flatnonzero(table.targets[:, 0])[0])
    scores = table.scores.copy()
    scores[lost] = np.nan
    table = ScoreTable(**{**vars(table), "scores": scores, "statuses": ()})
    metrics = measure_multi_label(table)
    positives = metrics["per_class"][0]["positives"]
    expected = (positives - 1) / positives + 1 / positives * positives / 60
    assert metrics["failed"] == 1
    assert metrics["per_class"][0]["value"] == pytest.approx(expected)
    write_evaluation(tmp_path, table, metrics)
    again = read_scores(tmp_path)
    assert again.multi_label
    np.testing.assert_array_equal(again.targets, table.targets)
    np.testing.assert_array_equal(again.scores, table.scores)
    text = table_text({**metrics, "protocol_note": "A note."})
    assert text.splitlines()[1].startswith("mean average precision  ")
    assert "1 could not be read and count as mistakes. A note." in text


def test_data_without_any_positive_has_no_mean() -> None:
    table = make_table()
    empty = ScoreTable(**{**vars(table), "targets": np.zeros_like(table.targets)})
    metrics = measure_multi_label(empty)
    assert math.isnan(metrics["mean_average_precision"]["value"])
    assert math.isnan(mean_average_precision(empty))
    assert metrics["per_class"] == []


def test_intervals_are_those_of_recordings_drawn_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whole recordings are drawn, so a few long ones give another interval than many videos."""
    monkeypatch.setattr(multi_label, "RESAMPLES", 100)
    table = make_table()
    recordings = tuple(str(number // 10) for number in range(60))
    found = measure_multi_label(ScoreTable(**{**vars(table), "recordings": recordings}))
    draws = np.random.default_rng(0).multinomial(6, [1 / 6] * 6, 100)
    values = []
    for times in draws:
        chosen = [video for video in range(60) for _ in range(times[video // 10])]
        scores, targets = table.scores[chosen], table.targets[chosen]
        values.append([by_definition(scores[:, i].tolist(), targets[:, i].tolist())
                       for i in (0, 1)])  # fmt: skip
    resampled = np.array(values, dtype=float)
    low, high = np.quantile(resampled[:, 1], [0.025, 0.975])
    guessed = found["per_class"][1]
    assert (guessed["low"], guessed["high"]) == (pytest.approx(low), pytest.approx(high))
    low, high = np.quantile(resampled.mean(1), [0.025, 0.975])
    mean = found["mean_average_precision"]
    assert (mean["low"], mean["high"]) == (pytest.approx(low), pytest.approx(high))
    alone = measure_multi_label(table)["per_class"][1]
    assert guessed["high"] - guessed["low"] != pytest.approx(alone["high"] - alone["low"], rel=0.02)
