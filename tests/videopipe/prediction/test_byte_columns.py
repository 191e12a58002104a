"""Videos as bytes in a column of a Parquet or Arrow file, read, killed and resumed."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.processes import kill, start_paused
from tests.servers import web_site
from videopipe.cli import main
from videopipe.errors import DataError, DecodeError
from videopipe.prediction.discovery import VideoListing
from videopipe.video.sources.local_copy import local_copy

QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]
NAMES = ["day/a.mp4", "b.mp4", None, "day/a.mp4", "d.mp4"]


def write_file(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=2)


WRITERS = {"a.parquet": write_parquet, "a.arrow": write_file, "a.feather": write_stream}


def listed(*arguments: object) -> list[str]:
    return [video.path for video in VideoListing(map(str, arguments))]


def content_of(path: str) -> bytes:
    with local_copy(path) as file:
        return file.read_bytes()


@pytest.fixture(scope="module")
def films(tmp_path_factory, noisy_video: Callable[..., Path]) -> list[Path]:
    folder = tmp_path_factory.mktemp("films")
    return [noisy_video(folder / f"{number}.mp4", number) for number in range(5)]


@pytest.mark.parametrize("name", WRITERS)
def test_every_row_leads_to_its_bytes(tmp_path, name):
    contents = [b"zero", b"one" * 1000, None, b"three", b""]
    columns = {"file_name": NAMES, "Video": contents, "start_seconds": [None, 1.0, None, None, 2.5]}
    file = tmp_path / name
    WRITERS[name](pa.table(columns), file)
    paths = [f"{file}/{end}" for end in ("0-a.mp4", "1-b.mp4", "2", "3-a.mp4", "4-d.mp4")]
    videos = list(VideoListing([file]))
    assert [video.path for video in videos] == paths
    assert [video.start_seconds for video in videos] == columns["start_seconds"]
    assert len({video.id for video in videos}) == 5
    for row in (0, 1, 4, 3, 0, 4):  # forwards, backwards and again
        assert content_of(paths[row]) == contents[row]
    with pytest.raises(DecodeError, match="the row has no bytes"):
        content_of(paths[2])
    with pytest.raises(DecodeError, match="no such file in the table, which has 5 rows"):
        content_of(f"{file}/5")
    with pytest.raises(DecodeError, match="expected the number of a row"):
        content_of(f"{file}/a.mp4")


def test_which_column_holds_the_videos(tmp_path):
    def paths_of(**columns: object) -> list[str]:
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        return [path.removeprefix(f"{tmp_path}/") for path in listed(tmp_path / "a.parquet")]

    assert paths_of(clip=[b"x", b"y"]) == ["a.parquet/0", "a.parquet/1"]
    assert paths_of(bytes=[b"x"], thumbnail=[b"y"], path=["../.."]) == ["a.parquet/0-.."]
    assert paths_of(video=[{"bytes": b"x", "path": "k/f.mp4"}]) == ["a.parquet/0-f.mp4"]
    assert content_of(str(tmp_path / "a.parquet/0-f.mp4")) == b"x"
    assert paths_of(path=["/x/f.mp4"], thumbnail=[b"y"]) == ["/x/f.mp4"]  # a list of paths
    assert paths_of(clip=[b"x"]) == listed_in(tmp_path)
    with pytest.raises(DataError, match="the columns data, mp4 hold bytes; expected the videos in"):
        paths_of(data=[b"x"], mp4=[b"y"])
    with pytest.raises(DataError, match="or 'bytes' with the videos themselves"):
        paths_of(other=[1])


def listed_in(folder: Path) -> list[str]:
    """By a pattern, beside a file that is not a table."""
    (folder / "no.parquet").write_bytes(b"PAR1")
    found = [path.removeprefix(f"{folder}/") for path in listed(folder / "*.parquet")]
    (folder / "no.parquet").unlink()
    return found


def test_a_table_behind_a_url(tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    rows = {"bytes": [b"zero" * 9000, b"one"], "path": ["a.mp4", "b.mp4"]}
    write_parquet(pa.table(rows), tmp_path / "a.parquet")
    with web_site() as site:
        site.files = {"a.parquet": (tmp_path / "a.parquet").read_bytes()}
        url = f"{site.url}/a.parquet"
        assert listed(url) == [f"{url}/0-a.mp4", f"{url}/1-b.mp4"]
        assert [content_of(path) for path in listed(url)] == rows["bytes"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_killed_and_resumed_every_row_has_one_video(tiny_model, films, tmp_path, verb):
    contents = [film.read_bytes() for film in films]
    table = pa.table({"bytes": [*contents, b"no video"], "path": [*NAMES, "text.mp4"]})
    write_parquet(table, tmp_path / "films.parquet")
    out = tmp_path / "out.jsonl"
    words = [verb, tiny_model, tmp_path / "films.parquet", "--out", out, *QUICK]
    parts = "arrow_parts:ArrowPartWriter.flush" if verb == "embed" else "parts:PartWriter.add"
    kill(start_paused(f"videopipe.prediction.table.{parts}", 2, words))
    assert main([str(word) for word in words]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["path"].rpartition("/")[2] for row in rows] == [
        "0-a.mp4", "1-b.mp4", "2", "3-a.mp4", "4-d.mp4", "5-text.mp4",
    ]  # fmt: skip
    assert [row["status"] for row in rows] == ["ok"] * 5 + ["error"]
    files = tmp_path / "files.jsonl"
    assert main([verb, str(tiny_model), *map(str, films), "--out", str(files), *QUICK]) == 0
    for row, expected in zip(rows, map(json.loads, files.read_text().splitlines()), strict=False):
        assert {**row, "id": 0, "path": 0} == {**expected, "id": 0, "path": 0}

    # Row 1 gets the content of row 4; the others keep their rows.
    time.sleep(0.05)
    contents[1] = contents[4]
    table = pa.table({"bytes": [*contents, b"no video"], "path": [*NAMES, "text.mp4"]})
    write_parquet(table, tmp_path / "films.parquet")
    assert main([str(word) for word in words]) == 0
    again = [json.loads(line) for line in out.read_text().splitlines()]
    assert again[1]["content_id"] == rows[4]["content_id"] != rows[1]["content_id"]
    assert [again[0], *again[2:]] == [rows[0], *rows[2:]]
    summary = json.loads((tmp_path / "out.jsonl.summary.json").read_text())
    assert summary["predicted_in_this_run"] == 1
