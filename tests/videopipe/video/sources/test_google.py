"""`gs://` by gcsfs, against a server on loopback with the JSON API."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ENVIRONMENT
from tests.servers import Objects, google_bucket
from videopipe.errors import DecodeError
from videopipe.prediction.discovery import VideoListing
from videopipe.video.sources import remote
from videopipe.video.sources.local_copy import local_copy

CONTENT = random.Random(0).randbytes(700_000)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Objects]:
    gcsfs = pytest.importorskip(
        "gcsfs", reason="gcsfs is not installed; to run this test: pip install 'videopipe[gcs]'"
    )
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    files = {"day/a.mp4": CONTENT, "day/b.mp4": b"b", "day/notes.txt": b"", "c.mp4": b"c"}
    with google_bucket("films", files) as (address, found):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", address)
        gcsfs.GCSFileSystem.clear_instance_cache()
        yield found
    gcsfs.GCSFileSystem.clear_instance_cache()


def listed(*arguments: str) -> list[str]:
    return [video.path for video in VideoListing(arguments)]


def test_objects_folders_and_patterns(objects: Objects) -> None:
    assert listed("gs://films/day/") == ["gs://films/day/a.mp4", "gs://films/day/b.mp4"]
    assert listed("gs://films/*.mp4") == ["gs://films/c.mp4"]
    with local_copy("gs://films/day/a.mp4") as file:
        assert file.read_bytes() == CONTENT
    with pytest.raises(DecodeError, match="no such object"), local_copy("gs://films/gone.mp4"):
        pass


def test_a_busy_server_is_asked_again(objects: Objects) -> None:
    objects.busy = 2
    with local_copy("gs://films/day/b.mp4") as file:
        assert file.read_bytes() == b"b"
    assert objects.busy == 0


@pytest.mark.parametrize(
    ("status", "words"), [(401, "status 401"), (403, "Forbidden: .*No access")]
)
def test_a_refusal_is_told_at_once(objects: Objects, status: int, words: str) -> None:
    objects.refused = status
    reason = rf"access is denied \({words}.*\); check the name and the credentials"
    with pytest.raises(DecodeError, match=reason), local_copy("gs://films/c.mp4"):
        pass
    asked_for = [request.partition("?")[0] for request in objects.requests]
    assert asked_for.count("/storage/v1/b/films/o/c.mp4") == 1


def test_the_driver_writes_nothing_on_stderr(objects: Objects) -> None:
    """Neither a warning for each object nor tracebacks, where it is imported first."""
    objects.busy = 1
    program = (
        "from videopipe.video.sources.local_copy import local_copy\n"
        "with local_copy('gs://films/c.mp4') as file: print(file.read_bytes())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**ENVIRONMENT, **os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("b'c'\n", "")
