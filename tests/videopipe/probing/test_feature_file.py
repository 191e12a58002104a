"""The feature file: rows at their places, journals with cut lines, incomplete folders."""

from pathlib import Path

import numpy as np
import pytest

from videopipe.errors import DataError
from videopipe.probing.feature_file import FEATURES, FeatureWriter, read_features, read_journals

SHAPE = (5, 2, 3, 4)
OK = {"status": "ok", "reason": "", "starts": [0.0]}


def row(value: float) -> np.ndarray:
    return np.full(SHAPE[1:], value, dtype=np.float16)


def test_rows_of_two_processes_lie_in_one_array(tmp_path: Path) -> None:
    writers = [FeatureWriter(tmp_path, SHAPE, rank) for rank in (0, 1)]
    for index in (4, 0, 3, 1):
        writers[index % 2].write(index, row(index + 1), OK)
    for writer in writers:
        writer.close()
    found = np.load(tmp_path / FEATURES, mmap_mode="r")
    assert (found.dtype, found.shape) == (np.float16, SHAPE)
    assert [float(one.max()) for one in found] == [1, 2, 0, 4, 5]
    assert set(read_journals(tmp_path)) == {0, 1, 3, 4}


def test_a_line_cut_short_is_left_out_and_the_next_one_is_whole(tmp_path: Path) -> None:
    writer = FeatureWriter(tmp_path, SHAPE, 0)
    writer.write(0, row(1), OK)
    writer.close()
    journal = tmp_path / "journal-0.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"index": 1, "sta')
    writer = FeatureWriter(tmp_path, SHAPE, 0)
    writer.write(2, row(3), OK)
    writer.close()
    journal.write_bytes(journal.read_bytes() + bytes(20))
    assert set(read_journals(tmp_path)) == {0, 2}
    assert float(np.load(tmp_path / FEATURES)[0].max()) == 1  # a new writer keeps what is there


def test_a_row_that_succeeded_wins_over_one_that_failed(tmp_path: Path) -> None:
    failed = {"status": "timeout", "reason": "no answer within 1 s"}
    for rank, line in ((0, OK), (1, failed)):  # in any order of the files
        writer = FeatureWriter(tmp_path, SHAPE, rank)
        writer.write(rank, None, failed)
        writer.write(2, None, line)
        writer.close()
    assert read_journals(tmp_path)[2]["status"] == "ok"


def test_an_unfinished_folder_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"features\.json is missing; run the stage `features`"):
        read_features(tmp_path)
    (tmp_path / "features.json").write_text('{"format": 9}')
    with pytest.raises(DataError, match="format 9, expected 1; make them again"):
        read_features(tmp_path)
