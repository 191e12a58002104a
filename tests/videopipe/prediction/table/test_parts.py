import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from videopipe.errors import ConfigError, DataError, VideopipeError
from videopipe.prediction.table.formats import FORMATS, format_of
from videopipe.prediction.table.merge import merge_parts
from videopipe.prediction.table.parts import (
    PartWriter,
    list_parts,
    read_part,
    recover_journals,
    write_part,
)
from videopipe.prediction.table.rows import Columns, shortest
from videopipe.prediction.table.table_format import as_rows

COLUMNS = Columns(labels=("a", "b"), top_k=2, scores=True, windows=True)
# Parts of a Lance dataset are Arrow files; test_lance_dataset.py has its tests.
SUFFIXES = tuple(suffix for suffix in FORMATS if suffix != ".lance")


def row(number: int, window: int = 0, last: bool = True, **changes: object) -> dict[str, object]:
    probability = np.float32(1 / (number + window + 1.5))
    best = shortest(probability)
    return {
        "id": f"{number:016x}",
        "path": f'odd, "name" {number}.mp4',
        "content_id": None,
        "status": "ok",
        "error": None,
        "start_seconds": window * 0.1,
        "end_seconds": window * 0.1 + 1 / 3,
        "duration_seconds": None,
        "clips": 3,
        "label_1": "a",
        "probability_1": best,
        "label_2": "b",
        "probability_2": None,
        "entropy": 0.1,
        "scores": [best, 1e-30],
        "last": last,
    } | changes


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_back_what_it_was_given(tmp_path, suffix):
    rows = [row(1), row(2, 1, False), row(3, status="error", error="line\x0bfeed", scores=None)]
    path = tmp_path / f"a=1{suffix}"
    write_part(path, rows, COLUMNS.schema())
    assert list(as_rows(read_part(path, COLUMNS.schema()))) == rows


def test_endings_that_are_no_format_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"x\.xlsx'; expected a name ending in \.parquet, \.csv"):
        format_of(tmp_path / "x.xlsx")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_are_complete_and_journals_hold_the_rest(tmp_path, suffix):
    writer = PartWriter(tmp_path, "run-0", COLUMNS.schema(), suffix, rows_per_part=3)
    for number in range(8):
        writer.add(row(number))
        parts = list_parts(tmp_path, suffix)
        in_parts = [r for part in parts for r in as_rows(read_part(part, COLUMNS.schema()))]
        journals = [path.read_text().splitlines() for path in tmp_path.glob("*.journal")]
        in_journals = [json.loads(line) for lines in journals for line in lines]
        assert in_parts + in_journals == [row(n) for n in range(number + 1)]
    if suffix == ".parquet":  # other programs can read the folder during the run
        assert len(pq.read_table(tmp_path)) == 6
    writer.finish_part()
    assert not list(tmp_path.glob("*.journal"))
    assert len(list_parts(tmp_path, suffix)) == 3


def test_a_killed_writer_loses_no_row_and_doubles_none(tmp_path):
    schema = COLUMNS.schema()
    writer = PartWriter(tmp_path, "run-0", schema, ".parquet", rows_per_part=2)
    for number in range(5):
        writer.add(row(number))
    journal = next(tmp_path.glob("*.journal"))
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole[: len(whole) // 2])  # killed in the middle of a line
    # Killed after a part was finished and before its journal was removed:
    finished = list_parts(tmp_path, ".parquet")[0]
    (tmp_path / f"_{finished.stem}.journal").write_bytes(json.dumps(row(0)).encode() + b"\n")
    recover_journals(tmp_path, schema, ".parquet")
    rows = [
        r for part in list_parts(tmp_path, ".parquet") for r in as_rows(read_part(part, schema))
    ]
    assert rows == [row(number) for number in range(5)]
    assert not list(tmp_path.glob("*.journal"))


def test_a_damaged_part_is_named_with_a_remedy(tmp_path):
    path = tmp_path / "part-1.parquet"
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(DataError, match="delete this file to have its videos predicted again"):
        read_part(path, COLUMNS.schema())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_merging_puts_rows_in_order_once(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("videopipe.prediction.table.merge.ROWS_PER_GROUP", 7)
    schema = COLUMNS.schema()
    wanted = [row(n, w, w == n % 3) for n in range(20) for w in range(n % 3 + 1)]
    order = list(reversed(range(20)))
    shuffled = list(wanted)
    np.random.default_rng(0).shuffle(shuffled)
    pieces = [shuffled[i::5] for i in range(5)]
    pieces.append([wanted[3], wanted[7]])  # a duplicate, which must not reach the table
    pieces.append([row(77), row(66)])  # of videos that were removed: kept, at the end
    files = []
    for number, piece in enumerate(pieces):
        files.append(tmp_path / f"part-{number}{suffix}")
        write_part(files[-1], piece, schema)
    counts = merge_parts(files, order, schema, tmp_path / f"all{suffix}")
    merged = list(as_rows(read_part(tmp_path / f"all{suffix}", schema)))
    expected = [
        entry for n in reversed(range(20)) for entry in wanted if entry["id"] == f"{n:016x}"
    ]
    assert merged == [*expected, row(66), row(77)]
    assert counts == {"ok": len(expected) + 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"all{suffix}", *(path.name for path in files)]
    )


def test_merging_refuses_to_leave_a_video_out(tmp_path):
    write_part(tmp_path / "part-0.csv", [row(0)], COLUMNS.schema())
    order = [0, 1, 2]
    with pytest.raises(VideopipeError, match="2 of 3 videos have no row yet"):
        merge_parts([tmp_path / "part-0.csv"], order, COLUMNS.schema(), tmp_path / "all.csv")
    assert not (tmp_path / "all.csv").exists()


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_parts import COLUMNS, row
from videopipe.prediction.table.parts import DiskFullError, PartWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
writer = PartWriter(Path(sys.argv[1]), "run-0", COLUMNS.schema(), ".csv")
number = 0
try:
    while True:
        writer.add(row(number))
        number += 1
except DiskFullError as error:
    print(number, error)
"""


def test_a_full_disk_stops_with_a_message_and_keeps_what_is_written(tmp_path):
    here = str(Path(__file__).parent)
    answer = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(tmp_path), here],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])},
    )
    number, message = answer.stdout.split(" ", 1)
    assert int(number) > 10
    assert "give the same command again to resume" in message
    recover_journals(tmp_path, COLUMNS.schema(), ".csv")
    (part,) = list_parts(tmp_path, ".csv")
    rows = list(as_rows(read_part(part, COLUMNS.schema())))
    assert rows == [row(n) for n in range(int(number))]


def test_parquet_holds_real_numbers(tmp_path):
    write_part(tmp_path / "x.parquet", [row(0)], COLUMNS.schema())
    stored = pq.ParquetFile(tmp_path / "x.parquet").read()
    assert stored.schema.field("scores").type == pa.list_(pa.float32())
    assert stored["probability_1"][0].as_py() == np.float32(1 / 1.5)
