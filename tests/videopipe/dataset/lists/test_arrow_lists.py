"""Parquet and Arrow lists have the columns of CSV lists, and are read as they are drawn."""

from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from videopipe.dataset.layouts.division import Division
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.lists.video_lists import read_list
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DataError
from videopipe.prediction.discovery import VideoListing


def write_stream(table: pa.Table, path: str) -> None:
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "list.parquet": pq.write_table,
    "list.feather": feather.write_feather,
    "list.arrow": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_entries_as_a_csv(tmp_path, name):
    for video in ("a.mp4", "b.mp4"):
        (tmp_path / video).touch()
    (tmp_path / "list.csv").write_text(
        "path,label,start_seconds,end_seconds,split\na.mp4,run,1.5,3,train\nb.mp4,walk,,,test\n"
    )
    columns = {
        "other": pa.array([b"\xff", None]),
        "Path": pa.array(["a.mp4", "b.mp4"]).dictionary_encode(),
        "label": ["run", "walk"],
        "start_seconds": [1.5, float("nan")],  # pandas writes missing numbers so
        "end_seconds": pa.array([3, None], pa.int32()),
        "split": ["train", "test"],
    }
    WRITERS[name](pa.table(columns), str(tmp_path / name))
    videos = list(VideoListing([tmp_path / name]))
    assert videos == list(VideoListing([tmp_path / "list.csv"]))
    assert videos[0] == VideoRange(str(tmp_path / "a.mp4"), 1.5, 3.0)
    divided = Division(validation="none")
    tables = [find_dataset(tmp_path / n, division=divided) for n in (name, "list.csv")]
    assert tables[0].records == tables[1].records


@pytest.mark.parametrize("name", WRITERS)
def test_bad_tables_say_what_is_wrong(tmp_path, name):
    file = tmp_path / name
    WRITERS[name](pa.table({"id": [1], "text": ["x"]}), str(file))
    with pytest.raises(DataError, match="the columns are id, text; expected one of them to be"):
        list(VideoListing([file]))
    WRITERS[name](pa.table({"video": [b"\0\1"]}), str(file))
    with pytest.raises(DataError, match="'video' has the type binary; expected paths as text"):
        list(read_list(file)[1])
    WRITERS[name](pa.table({"path": ["a.mp4", None]}), str(file))
    with pytest.raises(DataError, match=f"{name}:2: no path"):
        list(VideoListing([file]))
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match="not a Parquet or Arrow file, or damaged"):
        list(VideoListing([file]))


def test_a_long_table_is_not_kept_in_memory(tmp_path: Path):
    file = tmp_path / "list.parquet"
    table = pa.table({"path": [f"/videos/{number:09}.mp4" for number in range(400_000)]})
    pq.write_table(table, file, row_group_size=10_000)
    entries = read_list(file)[1]
    before = pa.total_allocated_bytes()
    assert next(entries).path == "/videos/000000000.mp4"
    assert pa.total_allocated_bytes() - before < table.nbytes / 3
    assert sum(1 for _ in entries) == 399_999
