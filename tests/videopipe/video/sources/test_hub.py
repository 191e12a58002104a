"""`hf://` by huggingface_hub, against a server on loopback that speaks the hub's API."""

import random
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from huggingface_hub import HfFileSystem

from tests.hub_server import DataSetRepository, hub
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DecodeError
from videopipe.prediction.discovery import VideoListing
from videopipe.prediction.table.completed_rows import CompletedVideo, has_changed
from videopipe.video.sources import remote
from videopipe.video.sources.local_copy import local_copy

CONTENT = random.Random(0).randbytes(700_000)
FILMS = "hf://datasets/someone/films"


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[DataSetRepository]:
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    files = {
        "day/a.mp4": CONTENT, "day/b.mp4": b"b", "day/notes.txt": b"", "c.mp4": b"c",
        "lists/all.txt": b"../day/b.mp4\n../gone.mp4\n",
    }  # fmt: skip
    with hub("someone/films", files) as (address, found):
        # HF_ENDPOINT is read when the library is imported, which has happened in this process.
        monkeypatch.setitem(fsspec.config.conf, "hf", {"endpoint": address})
        HfFileSystem.clear_instance_cache()
        yield found
    HfFileSystem.clear_instance_cache()


def listed(*arguments: str) -> list[str]:
    return [video.path for video in VideoListing(arguments)]


def test_folders_patterns_and_lists(repository: DataSetRepository) -> None:
    assert listed(f"{FILMS}/day/") == [f"{FILMS}/day/a.mp4", f"{FILMS}/day/b.mp4"]
    assert listed(FILMS) == [f"{FILMS}/c.mp4", f"{FILMS}/day/a.mp4", f"{FILMS}/day/b.mp4"]
    assert listed(f"{FILMS}/**/*.mp4") == listed(FILMS)
    assert listed(f"{FILMS}/*.mp4") == [f"{FILMS}/c.mp4"]
    assert listed(f"{FILMS}/lists/all.txt") == [f"{FILMS}/day/b.mp4", f"{FILMS}/gone.mp4"]


def test_copies_and_what_is_missing(repository: DataSetRepository) -> None:
    with local_copy(f"{FILMS}/day/a.mp4") as file:
        assert file.read_bytes() == CONTENT
    with local_copy(f"{FILMS}@main/c.mp4") as file:
        assert file.read_bytes() == b"c"
    with pytest.raises(DecodeError, match="no such object"), local_copy(f"{FILMS}/gone.mp4"):
        pass
    repository.requests.clear()
    other = "hf://datasets/someone/else/a.mp4"
    with pytest.raises(DecodeError, match="no such object"), local_copy(other):
        pass
    assert len(repository.requests) == 2  # in one attempt


def test_a_server_that_fails_is_asked_again(repository: DataSetRepository) -> None:
    repository.busy = 2
    with local_copy(f"{FILMS}/day/b.mp4") as file:
        assert file.read_bytes() == b"b"
    assert repository.busy == 0


def test_a_file_that_changed_after_its_row_is_noticed(repository: DataSetRepository) -> None:
    def changed() -> bool:
        return has_changed(VideoRange(f"{FILMS}/c.mp4"), row)

    row = CompletedVideo(f"{FILMS}/c.mp4", "content", written_at=1_710_000_000.0)  # in March 2024
    assert not changed()
    repository.files["c.mp4"] = b"other"
    repository.changed_at["c.mp4"] = "2024-04-01T00:00:00.000Z"
    assert changed()
