"""Videos that exist in this process only (`memory://`); decoders are other processes."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from videopipe import Predictor
from videopipe.cli import main
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DataError
from videopipe.prediction.discovery import VideoListing
from videopipe.prediction.embedding.embedding_request import EmbeddingRequest
from videopipe.prediction.operation import predict_table
from videopipe.prediction.request import TableRequest
from videopipe.scoring.settings import Execution
from videopipe.video.sources.own_objects import OwnObjects

ONE = Execution(device="cpu", workers=1, threads=1)


@pytest.fixture(scope="module")
def films(tmp_path_factory, noisy_video: Callable[..., Path]) -> list[Path]:
    folder = tmp_path_factory.mktemp("films")
    return [noisy_video(folder / f"{number}.mp4", number) for number in range(3)]


@pytest.fixture
def memory(films, tmp_path, monkeypatch) -> Iterator[Any]:
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    driver = fsspec.filesystem("memory")
    for film in films:
        driver.pipe_file(f"/films/{film.name}", film.read_bytes())
    yield driver
    driver.store.clear()


def listed(*arguments: str) -> list[str]:
    return [video.path for video in VideoListing(arguments)]


def open_files() -> int:
    """Anonymous files in memory that this process has open."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum("memfd:object" in str(link.readlink()) for link in links)


def tar_of(films: list[Path]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for film in films:
            tar.add(film, film.name)
    return stream.getvalue()


def table_of(films: list[Path]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"bytes": [film.read_bytes() for film in films]}), stream)
    return stream.getvalue()


def test_folders_patterns_and_lists_of_memory(memory):
    everything = [f"memory://films/{number}.mp4" for number in range(3)]
    assert listed("memory://films") == listed("memory:///films/") == everything
    assert listed("memory://films/[12].mp4") == everything[1:]
    assert listed("memory:///films/0.mp4", "memory://films/0.mp4") == everything[:1]
    memory.pipe_file("/lists/all.txt", b"../films/2.mp4\n")
    assert listed("memory://lists/all.txt") == everything[2:]


def test_a_predictor_reads_objects_of_its_process(tiny_model, films, memory):
    memory.pipe_file("/shards/a.tar", tar_of(films))
    memory.pipe_file("/tables/b.parquet", table_of(films))
    memory.pipe_file("/films/broken.mp4", b"no video")
    sources = ["memory://films", "memory://shards/a.tar", "memory://tables/b.parquet"]
    sources += ["memory://films/gone.mp4", "memory://shards/a.tar/gone.mp4"]
    sources += [VideoRange("memory://frames/1/", frame_rate=12.0)]
    with Predictor(tiny_model, device="cpu", workers=2, threads=1) as predictor:
        rows = {row["path"]: row for row in predictor.predict(sources)}
        expected = sorted(predictor.predict(films), key=lambda row: row["path"])
    assert open_files() == 0
    assert len(rows) == 13
    for number, film in enumerate(expected):
        paths = (f"films/{number}.mp4", f"shards/a.tar/{number}.mp4", f"tables/b.parquet/{number}")
        for path in paths:
            found = rows[f"memory://{path}"]
            assert {**found, "id": 0, "path": 0} == {**film, "id": 0, "path": 0}
    reasons = {path: row["error"] for path, row in rows.items() if row["status"] != "ok"}
    assert rows["memory://films/gone.mp4"]["status"] == "missing"
    assert rows["memory://shards/a.tar/gone.mp4"]["status"] == "missing"
    assert reasons["memory://films/gone.mp4"] == "no such object"
    assert "cannot be opened as a video" in reasons["memory://films/broken.mp4"]
    assert "not read from memory://" in reasons["memory://frames/1/"]


def test_a_caller_that_stops_early_leaves_no_copies(tiny_model, memory):
    with Predictor(tiny_model, device="cpu", workers=1, threads=1) as predictor:
        rows = predictor.predict("memory://films")
        assert next(rows)["status"] == "ok"
        assert open_files() > 0
        rows.close()
        assert open_files() == 0


@pytest.mark.parametrize("kind", [TableRequest, EmbeddingRequest])
def test_a_table_of_memory_is_resumed_and_compares_content(
    tiny_model, films, memory, kind, tmp_path
):
    request = kind(model=tiny_model, out=tmp_path / "out.parquet", execution=ONE)
    assert predict_table(request, ["memory://films"])["statuses"] == {"ok": 3}
    # The same content written later, as by another process, is not predicted again.
    memory.pipe_file("/films/0.mp4", films[0].read_bytes())
    memory.pipe_file("/films/1.mp4", films[2].read_bytes())
    memory.pipe_file("/films/3.mp4", films[1].read_bytes())
    summary = predict_table(request, ["memory://films"])
    assert summary["predicted_in_this_run"] == 2
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["path"] for row in rows] == [f"memory://films/{number}.mp4" for number in range(4)]
    assert rows[1]["content_id"] == rows[2]["content_id"] != rows[0]["content_id"]


def test_several_processes_are_refused(tiny_model, memory, tmp_path):
    request = TableRequest(model=tiny_model, out=tmp_path / "out.csv", execution=ONE, engine="ray")
    with pytest.raises(
        DataError, match=r"memory://films/0.mp4: memory:// holds objects of one pro"
    ):
        predict_table(request, ["memory://films"])


def test_a_command_has_no_objects(tiny_model, tmp_path, capsys):
    words = ["predict", str(tiny_model), "memory://a.mp4", "--out", str(tmp_path / "a.csv")]
    assert main(words) == 1
    assert "memory:// holds objects of this process, and there are none" in capsys.readouterr().err


def test_without_files_in_memory_copies_are_in_the_scratch_folder(
    memory, films, tmp_path, monkeypatch
):
    monkeypatch.delattr(os, "memfd_create")
    with OwnObjects() as objects:
        copy = objects.copy(0, "memory://films/0.mp4")
        assert copy is not None
        path = copy.opened("memory://films/0.mp4")
        assert path.parent == tmp_path / "scratch"
        assert path.read_bytes() == films[0].read_bytes()
        other = objects.copy(1, "memory://films/1.mp4")
        assert other is not None
        objects.release(0)
        assert not path.exists()
        assert Path(other.file).exists()
    assert not list((tmp_path / "scratch").iterdir())
    assert objects.copy(2, "s3://films/0.mp4") is None


def test_a_shard_that_is_replaced_has_its_new_members(memory, films):
    for order in (films, films[::-1]):  # the same size and name, so only the time differs
        memory.pipe_file("/a.tar", tar_of(order))
        with OwnObjects() as objects:
            copy = objects.copy(0, "memory://a.tar/0.mp4")
            assert copy is not None
            assert copy.opened("").read_bytes() == films[0].read_bytes()
