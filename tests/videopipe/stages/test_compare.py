"""A comparison names its rows, averages splits, pairs videos, and adds notes."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from videopipe.errors import DataError
from videopipe.evaluation.comparison.table import read_evaluations
from videopipe.evaluation.score_table import ScoreTable, measure, write_evaluation
from videopipe.evaluation.statistics import compare_paired
from videopipe.pipeline.stage import Inputs, Result
from videopipe.stages.compare import CompareConfig, run

LABELS = ("left", "right", "up | down")


def evaluation(
    folder: Path,
    right: int,
    videos: int = 40,
    first: int = 0,
    recordings: tuple[str, ...] = (),
    file: str = "",
    **extra: Any,
) -> Path:
    """An evaluation that gets the first `right` videos right; `file`: all are ranges of it."""
    targets = np.arange(videos) % 3
    scores = np.full((videos, 3), 0.1, np.float32)
    for video in range(videos):
        scores[video, (targets[video] + (video >= right)) % 3] = 0.8
    paths = tuple(file or f"{first + video}.avi" for video in range(videos))
    ones, reasons = np.ones(videos, int), ("",) * videos
    table = ScoreTable(LABELS, paths, targets, ones, scores, reasons, recordings)
    folder.mkdir(parents=True)
    write_evaluation(folder, table, {**measure(table), "protocol": "validation", **extra})
    return folder


def compare(results: list[Result], out: Path, **config: Any) -> dict[str, Any]:
    out.mkdir()
    run(CompareConfig(**config), Inputs({"scores": results}), out)
    return json.loads((out / "table.json").read_text())


def test_a_number_of_the_paper_for_a_stage_that_a_matrix_has_spread(tmp_path: Path) -> None:
    results = [
        Result(evaluation(tmp_path / "a", 20), "i3d"),
        Result(evaluation(tmp_path / "b", 34), "s4nd", {"length": 1.0}),
        Result(evaluation(tmp_path / "c", 30), "s4nd", {"length": 20.0}),
    ]
    found = compare(results, tmp_path / "out", paper={"i3d": 58.1, "s4nd": 62.1})
    papers = {row["name"]: row["paper"] for row in found["rows"]}
    assert papers == {"i3d": 0.581, "length=1": None, "length=20": None}
    text = (tmp_path / "out" / "table.md").read_text()
    assert "The paper has 62.1 for `s4nd`, which is several rows here." in text


def test_stages_beside_the_paper_with_cost_and_a_paired_test(tmp_path: Path) -> None:
    cost = {
        "model": {"parameters": 31_400_000},
        "training": {"seconds_per_step": 1.5, "peak_memory_bytes": 3 * 2**30},
    }
    results = [
        Result(evaluation(tmp_path / "a", 20), "i3d"),
        Result(evaluation(tmp_path / "b", 34, **cost), "s4nd"),
    ]
    found = compare(results, tmp_path / "out", paper={"i3d": 58.1, "s4nd": 62.1})
    assert [(row["name"], row["top1"]) for row in found["rows"]] == [("i3d", 0.5), ("s4nd", 0.85)]
    pair = found["paired"]["s4nd"]
    assert (pair["only_first"], pair["only_second"], pair["difference"]) == (0, 14, 0.35)
    assert pair["p_value"] == pytest.approx(2 / 2**14)
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| s4nd | 62.1 | 85.0 | 70.9 to 92.9 | 100.0 | 85.0 | 31.40 M | 1.5 | 3.00 GiB |" in text
    assert "+35.0" in text
    assert "Top-1 over 40 videos" in text
    lines = list(csv.DictReader((tmp_path / "out" / "table.csv").open()))
    assert lines[1]["parameters"] == "31400000"
    drawing = (tmp_path / "out" / "accuracy.svg").read_text()
    assert "s4nd" in drawing
    assert "paper" in drawing


def test_splits_become_mean_and_spread_of_one_row(tmp_path: Path) -> None:
    results = [
        Result(
            evaluation(tmp_path / f"{length}{split}", right),
            "scores",
            {"length": length, "split": split},
        )
        for length, rights in ((20, (10, 12, 14)), (1, (30, 30, 36)))
        for split, right in enumerate(rights, start=1)
    ]
    found = compare(results, tmp_path / "out", paper={"length=20": 53.74, "length=1": 62.07})
    assert [row["name"] for row in found["rows"]] == ["length=20", "length=1"]
    assert found["rows"][1]["top1"] == pytest.approx(0.8)
    assert found["rows"][1]["deviation"] == pytest.approx(np.std([0.75, 0.75, 0.9], ddof=1))
    pair = found["paired"]["length=1"]
    assert pair["trials"] == 120, "the same video of another split is apart"
    # Neither the videos, which all splits share, nor the splits are independent observations.
    videos = np.arange(40)
    first, second = (
        np.concatenate([videos < right for right in rights])
        for rights in ((10, 12, 14), (30, 30, 36))
    )
    expected = compare_paired(first, second, [*videos, *videos, *videos], np.repeat([1, 2, 3], 40))
    assert {name: pair[name] for name in ("low", "high", "p_value", "test")} == {
        "low": pytest.approx(expected.low), "high": pytest.approx(expected.high),
        "p_value": pytest.approx(expected.p_value), "test": "clustered t",
    }  # fmt: skip
    text = (tmp_path / "out" / "table.md").read_text()
    assert "80.0 ± 8.7" in text
    assert "standard deviation over the repeats" in text


def test_a_setting_that_is_the_same_everywhere_is_in_no_name(tmp_path: Path) -> None:
    results = [
        Result(evaluation(tmp_path / str(length), 10), "scores", {"frames": 8, "length": length})
        for length in (1, 20)
    ]
    assert [found.row for found in read_evaluations(results, None)] == ["length=1", "length=20"]


def test_the_mean_of_repeats_is_not_rounded_to_whole_videos(tmp_path: Path) -> None:
    results = [
        Result(evaluation(tmp_path / str(right), right, videos=20), "scores", {"split": right})
        for right in (11, 12)
    ]
    (row,) = compare(results, tmp_path / "out")["rows"]
    assert row["top1"] == pytest.approx(0.575)
    assert (row["videos"], row["recordings"], row["repeats"]) == (20, 20, 2)
    assert "| 57.5 ± 3.5 |" in (tmp_path / "out" / "table.md").read_text()


def test_a_row_has_the_means_of_its_repeats_and_the_sum_of_their_failures(tmp_path: Path) -> None:
    share = {"low": 0.0, "high": 1.0, "successes": 1, "trials": 1}
    results = [
        Result(
            evaluation(tmp_path / str(n), 20, top5={"value": top5, **share},
                       mean_class=mean_class, failed=failed),
            "scores",
            {"split": n},
        )
        for n, (top5, mean_class, failed) in enumerate([(0.6, 0.3, 1), (0.9, 0.5, 4)])
    ]  # fmt: skip
    (row,) = compare(results, tmp_path / "out")["rows"]
    assert (row["top5"], row["mean_class"]) == (pytest.approx(0.75), pytest.approx(0.4))
    assert row["failed"] == 5


def test_folds_differ_by_more_than_their_videos(tmp_path: Path) -> None:
    """50, 75 and 100 % in three folds: 90 right of 120 videos is no such narrow interval."""
    results = [
        Result(evaluation(tmp_path / str(n), right, first=100 * n), "scores", {"split": n})
        for n, right in enumerate((20, 30, 40))
    ]
    (row,) = compare(results, tmp_path / "out")["rows"]
    assert (row["videos"], row["repeats"], row["top1"]) == (120, 3, 0.75)
    assert row["low"] < 0.5
    assert row["high"] > 0.9


def test_videos_of_one_recording_widen_the_intervals(tmp_path: Path) -> None:
    found = {}
    for name, recordings in (("apart", ()), ("together", tuple(str(v // 5) for v in range(40)))):
        results = [
            Result(evaluation(tmp_path / name / str(right), right, recordings=recordings), stage)
            for stage, right in (("i3d", 20), ("s4nd", 30))
        ]
        found[name] = compare(results, tmp_path / f"{name}_out")
    apart, together = (found[name]["paired"]["s4nd"] for name in ("apart", "together"))
    assert (apart["test"], together["test"]) == ("exact McNemar", "clustered t")
    assert apart["p_value"] < 0.01 < together["p_value"]
    widths = [found[name]["rows"][0] for name in ("apart", "together")]
    assert widths[1]["high"] - widths[1]["low"] > 1.5 * (widths[0]["high"] - widths[0]["low"])
    assert "40 videos of 8 recordings" in (tmp_path / "together_out" / "table.md").read_text()


def test_ranges_of_one_file_are_all_paired(tmp_path: Path) -> None:
    results = [
        Result(evaluation(tmp_path / stage, right, file="one.avi"), stage)
        for stage, right in (("i3d", 20), ("s4nd", 30))
    ]
    found = compare(results, tmp_path / "out")
    assert found["paired"]["s4nd"]["trials"] == 40
    assert (found["rows"][0]["videos"], found["rows"][0]["recordings"]) == (40, 1)


def test_the_papers_protocol_and_unreadable_videos_are_reported(tmp_path: Path) -> None:
    results = [Result(evaluation(tmp_path / "a", 20, protocol="paper", failed=2), "s4nd")]
    compare(results, tmp_path / "out")
    text = (tmp_path / "out" / "table.md").read_text()
    assert "chosen on the test videos" in text
    assert "counted as mistakes: s4nd: 2" in text


def test_kernel_lengths_and_frame_rates_are_drawn(tmp_path: Path) -> None:
    layer = {
        "layer": "stages.0.0",
        "initial_length": 20.0,
        "learned_length": 17.0,
        "learned_low": 15.0,
        "learned_high": 19.0,
    }
    share = {"value": 0.5, "low": 0.4, "high": 0.6}
    rate = {"frames_per_second": 7.5, "with_rate": share, "without_rate": share}
    extra = {"time_axis": [layer], "temporal_resolution": [rate, rate]}
    found = compare([Result(evaluation(tmp_path / "a", 20, **extra), "s")], tmp_path / "out")
    assert found["time_axis"] == {"s": [layer]}
    assert "learned against initial" in (tmp_path / "out" / "kernel_lengths.svg").read_text()
    assert "frames per second" in (tmp_path / "out" / "frame_rates_s.svg").read_text()


def test_wrong_names_are_refused_with_the_rows_there_are(tmp_path: Path) -> None:
    results = [Result(evaluation(tmp_path / "a", 20), "i3d")]
    with pytest.raises(DataError, match="names s4dn, but the rows of this table are i3d"):
        compare(results, tmp_path / "one", paper={"s4dn": 1.0})
    with pytest.raises(DataError, match="reference 's4nd' is not a row"):
        compare(results, tmp_path / "two", reference="s4nd")
    with pytest.raises(DataError, match="two evaluations are both 'i3d'"):
        compare(results * 2, tmp_path / "three")
