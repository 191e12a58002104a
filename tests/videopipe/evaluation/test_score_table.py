"""The table of scores is read back bit for bit, and its metrics are correct."""

import json
from pathlib import Path

import numpy as np
import pytest

from videopipe.errors import DataError
from videopipe.evaluation.labelled import check_failed
from videopipe.evaluation.score_table import (
    ScoreTable,
    measure,
    read_metrics,
    read_scores,
    without_nan,
    write_evaluation,
    write_scores,
)


@pytest.fixture
def table() -> ScoreTable:
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(7), size=60).astype(np.float32)
    scores[[3, 50]] = np.nan
    return ScoreTable(
        labels=("walk", "run, fast", "bend", "jump#1", "skip & hop", "wave", "never seen"),
        paths=tuple(f"videos/höher [{i}]; #{i}.avi" for i in range(60)),
        targets=random.integers(0, 6, size=60),
        clips=np.arange(60) % 4 + 1,
        scores=scores,
        reasons=tuple("cut short" if i in (3, 50) else "" for i in range(60)),
        recordings=tuple(f"film {i // 3}" for i in range(60)),
    )


def test_scores_come_back_bit_for_bit(table: ScoreTable, tmp_path: Path) -> None:
    write_evaluation(tmp_path, table, measure(table))
    found = read_scores(tmp_path)
    np.testing.assert_array_equal(found.scores, table.scores)
    assert found.scores.dtype == np.float32
    assert (found.labels, found.paths, found.reasons) == (table.labels, table.paths, table.reasons)
    assert found.recordings == table.recordings
    np.testing.assert_array_equal(found.targets, table.targets)
    np.testing.assert_array_equal(found.clips, table.clips)
    assert measure(found) == read_metrics(tmp_path) == without_nan(measure(table))


def test_a_failed_video_has_empty_cells(table: ScoreTable, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_scores(tmp_path / "scores.parquet", table)
    stored = pq.read_table(tmp_path / "scores.parquet")
    for name in table.labels:
        cells = stored[f"score_{name}"].to_pylist()
        assert [row for row, cell in enumerate(cells) if cell is None] == [3, 50]


def test_a_table_without_recordings_is_read(table: ScoreTable, tmp_path: Path) -> None:
    """As written by earlier versions: every file is a recording of its own."""
    import pyarrow.parquet as pq

    write_scores(tmp_path / "scores.parquet", table)
    old = pq.read_table(tmp_path / "scores.parquet").drop_columns("recording")
    pq.write_table(old, tmp_path / "scores.parquet")
    assert read_scores(tmp_path).recordings == table.paths


def test_accuracies_by_a_plain_loop(table: ScoreTable) -> None:
    found = measure(table)
    right, right5, by_class = 0, 0, {}
    for target, scores in zip(table.targets, table.scores, strict=True):
        best = sorted(range(7), key=lambda c: -scores[c]) if np.isfinite(scores).all() else []
        right += best[:1] == [target]
        right5 += target in best[:5]
        by_class.setdefault(int(target), []).append(best[:1] == [target])
    assert (found["top1"]["successes"], found["top1"]["trials"]) == (right, 60)
    assert found["top5"]["successes"] == right5
    assert found["mean_class"] == pytest.approx(np.mean([np.mean(v) for v in by_class.values()]))
    assert np.trace(np.array(found["confusion"])) == right
    assert np.sum(found["confusion"]) == 58, "confusion counts the videos that have a prediction"
    assert [entry["label"] for entry in found["per_class"]] == list(table.labels[:6])


def test_a_failed_video_counts_as_a_mistake(table: ScoreTable) -> None:
    found = measure(table)
    assert (found["videos"], found["failed"]) == (60, 2)
    assert found["top1"]["trials"] == 60
    # More classes asked for than exist: every video that has scores is right, the failed are not.
    scores = np.array([[0.1, 0.9], [np.nan, np.nan]], np.float32)
    few = ScoreTable(
        ("a", "b"), ("x", "y"), np.array([0, 1]), np.array([1, 0]), scores, ("", "gone")
    )
    assert measure(few)["top5"]["successes"] == 1


def test_an_evaluation_without_any_readable_video_is_json(tmp_path: Path) -> None:
    nothing = ScoreTable(
        ("a", "b"), ("x",), np.array([0]), np.array([0]), np.full((1, 2), np.nan), ("gone",)
    )
    write_evaluation(tmp_path, nothing, measure(nothing))
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert found["top1"]["value"] == 0
    assert found["calibration"]["log_loss"] is None


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "scores.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(DataError, match=r"scores\.parquet.*evaluate again"):
        read_scores(tmp_path)
    with pytest.raises(DataError, match=r"metrics\.json.*evaluate again"):
        read_metrics(tmp_path)


def test_scores_that_do_not_fit_their_videos_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(1, 3\).*1 videos and 2 classes"):
        ScoreTable(("a", "b"), ("x",), np.array([0]), np.array([1]), np.zeros((1, 3)), ("",))


def test_too_many_videos_without_scores_are_refused() -> None:
    reasons = ("", "a: no such file", "c: no such file", "")
    table = ScoreTable(
        labels=("x", "y"),
        paths=("z", "a", "c", "d"),
        targets=np.zeros(4, dtype=np.int64),
        clips=np.ones(4, dtype=np.int64),
        scores=np.array([[1, 0], [np.nan] * 2, [np.nan] * 2, [0, 1]], dtype=np.float32),
        reasons=reasons,
    )
    check_failed(table, 0.5)
    check_failed(table, 0.34, known={"a"})  # one of three
    with pytest.raises(DataError, match=r"1 of 3 videos .*: no such file \(1 video\)\. First: c"):
        check_failed(table, 0.3, known={"a"})
    with pytest.raises(DataError, match=r"2 of 4 videos .*: no such file \(2 videos\)\. First: a"):
        check_failed(table, 0.4)
