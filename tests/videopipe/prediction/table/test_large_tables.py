"""Tables and lists that are too large to be held or read as a whole."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from videopipe.dataset.lists.video_range import VideoRange
from videopipe.prediction.resume import find_parts, make_plan
from videopipe.prediction.table import merge, tar_file, text_files
from videopipe.prediction.table.formats import FORMATS, format_of
from videopipe.prediction.table.parts import list_parts, parts_folder, read_part, scan_part
from videopipe.prediction.table.rows import Columns
from videopipe.prediction.table.table_format import as_rows

COLUMNS = Columns(labels=("a", "b"), top_k=1, embeddings=True)
ADD_ONE = """
import json, resource, sys
from pathlib import Path
from tests.videopipe.prediction.table.test_large_tables import add_one

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
rows = add_one(Path(sys.argv[1]), int(sys.argv[2]))
print(json.dumps([rows, peak() - before]))
"""


def videos(count: int) -> list[VideoRange]:
    return [VideoRange(f"/nowhere/{number:07}.mp4") for number in range(count)]


def write_table(path: Path, count: int, width: int = 256) -> None:
    """A table of `count` videos, group by group."""
    schema = COLUMNS.schema()

    def groups():
        everything = videos(count)
        for start in range(0, count, 4096):
            part = everything[start : start + 4096]
            values = np.random.default_rng(start).random(len(part) * width, np.float32)
            columns = {name: pa.nulls(len(part), schema.field(name).type) for name in schema.names}
            columns["id"] = pa.array([video.id for video in part])
            columns["path"] = pa.array([video.path for video in part])
            columns["status"] = pa.array(["ok"] * len(part))
            offsets = np.arange(0, len(values) + 1, width, np.int32)
            columns["embedding"] = pa.ListArray.from_arrays(offsets, pa.array(values))
            yield pa.table(columns, schema=schema)

    with path.open("wb") as file:
        format_of(path).write(file, schema, groups())


def add_one(path: Path, count: int) -> int:
    """What a run does to add one video to a complete table of `count`; -> rows afterwards."""
    schema, identity = COLUMNS.schema(), {"model": "x"}
    path.with_name(path.name + ".summary.json").write_text('{"identity": {"model": "x"}}')
    files = find_parts(path, identity, schema, overwrite=False)
    plan = make_plan(path, identity, videos(count + 1), schema, files)
    (task,) = plan.tasks
    row = dict.fromkeys(schema.names) | {"id": task.video.id, "path": "new", "status": "ok"}
    folder = parts_folder(path)
    with (folder / f"part-1{path.suffix}").open("wb") as file:
        format_of(path).write(file, schema, [pa.Table.from_pylist([row], schema=schema)])
    target = folder / f"_merged{path.suffix}"
    counts = merge.merge_parts(list_parts(folder, path.suffix), plan.order, schema, target)
    return counts["ok"]


def test_adding_one_video_to_a_large_table_needs_little_memory(tmp_path):
    count, path = 60_000, tmp_path / "all.parquet"
    write_table(path, count)
    assert path.stat().st_size > 40 * 2**20
    done = subprocess.run(
        [sys.executable, "-c", ADD_ONE, path, str(count)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[4],
        check=True,
    )
    rows, grown = json.loads(done.stdout)
    assert rows == count + 1
    assert grown < 400 * 2**20, f"{grown / 2**20:.0f} MB"


@pytest.mark.parametrize("suffix", [suffix for suffix in FORMATS if suffix != ".lance"])
def test_rows_are_the_same_however_they_are_grouped(tmp_path, monkeypatch, suffix):
    count, path = 500, tmp_path / f"all{suffix}"
    write_table(path, count, width=3)
    expected = list(as_rows(read_part(path, COLUMNS.schema())))
    monkeypatch.setattr(text_files, "ROWS_PER_GROUP", 60)
    monkeypatch.setattr(tar_file, "ROWS_PER_GROUP", 60)
    monkeypatch.setattr(merge, "ROWS_PER_GROUP", 70)
    monkeypatch.setattr(merge, "CACHE_BYTES", 1)  # one group at a time
    assert len(list(scan_part(path, COLUMNS.schema()))) == (
        1 if suffix in (".parquet", ".arrow") else 9
    )
    assert add_one(path, count) == count + 1
    merged = parts_folder(path) / f"_merged{suffix}"
    assert list(as_rows(read_part(merged, COLUMNS.schema())))[:count] == expected


def test_groups_of_wide_rows_are_short(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "BYTES_PER_GROUP", 40_000)
    write_table(tmp_path / "all.parquet", 300, width=100)
    assert add_one(tmp_path / "all.parquet", 300) == 301
    merged = parts_folder(tmp_path / "all.parquet") / "_merged.parquet"
    sizes = [len(table) for _, table in scan_part(merged, COLUMNS.schema())]
    assert sum(sizes) == 301
    assert max(sizes) < 100
