import io
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import fsspec
import pytest

from tests.servers import Site, bucket, web_site
from videopipe.errors import DataError, DecodeError
from videopipe.video.sources import remote, scratch
from videopipe.video.sources.local_copy import local_copy
from videopipe.video.sources.remote import copy_object, describe, file_system

CONTENT = bytes(range(256)) * 3000  # 768,000 bytes


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    with web_site() as site:
        site.files["a.mp4"] = CONTENT
        yield site


def copied(url: str) -> bytes:
    target = io.BytesIO()
    copy_object(url, target)
    return target.getvalue()


def test_a_copy_is_read_in_ranges_and_removed(site, tmp_path):
    with local_copy(f"{site.url}/a.mp4?token=1") as path:
        assert path.read_bytes() == CONTENT
        assert path.suffix == ".mp4"
    assert [file.name for file in (tmp_path / "scratch").iterdir()] == [".lock"]
    assert len([span for _, _, span in site.requests if span]) > 1


def test_a_cut_connection_continues_where_it_stopped(site):
    site.cut_after["a.mp4"] = 100_000  # of every answer
    assert copied(f"{site.url}/a.mp4") == CONTENT


def test_a_busy_server_is_asked_again(site):
    site.busy["a.mp4"] = 5  # HEAD and GET of the first two attempts, and one more
    assert copied(f"{site.url}/a.mp4") == CONTENT
    site.busy["a.mp4"] = 1000
    with pytest.raises(DecodeError, match=r"the server answers with status 503 \(4 attempts\)"):
        copied(f"{site.url}/a.mp4")


def test_what_is_missing_is_not_asked_for_again(site):
    with pytest.raises(DecodeError, match="no such object"):
        copied(f"{site.url}/b.mp4")
    assert len(site.requests) == 2


def test_an_object_that_changes_is_copied_from_its_beginning(site):
    site.swap["a.mp4"] = CONTENT[::-1] + b"more"
    assert copied(f"{site.url}/a.mp4") == CONTENT[::-1] + b"more"


def test_slow_bytes_arrive_in_smaller_reads(site, monkeypatch):
    monkeypatch.setattr(remote, "SLOW_READ_SECONDS", 0.01)
    monkeypatch.setattr(remote, "QUICK_READ_SECONDS", 0.0)
    site.files["a.mp4"] = CONTENT[:400_000]
    site.slow_seconds["a.mp4"] = 0.0005
    assert copied(f"{site.url}/a.mp4") == CONTENT[:400_000]
    spans = [span.removeprefix("bytes=").split("-") for _, _, span in site.requests if span]
    sizes = [int(end) - int(start) + 1 for start, end in spans]
    assert sizes[0] == 4 * remote.SMALLEST_READ_BYTES
    assert sizes[1] == remote.SMALLEST_READ_BYTES


def test_a_server_without_ranges(site):
    site.ranges = False
    assert copied(f"{site.url}/a.mp4") == CONTENT


def test_a_server_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.0)
    with pytest.raises(DecodeError, match="4 attempts"):
        copied("http://127.0.0.1:9/a.mp4")


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_told_at_once(site, status):
    site.refused["a.mp4"] = status
    reason = rf"access is denied \(status {status}\); check the name and the credentials$"
    with pytest.raises(DecodeError, match=reason):
        copied(f"{site.url}/a.mp4")
    assert len(site.requests) == 2


def test_reasons_are_in_plain_words(site, monkeypatch):
    site.cut_after["a.mp4"] = 0
    with pytest.raises(DecodeError, match="the connection ended before the end of the answer"):
        copied(f"{site.url}/a.mp4")
    with pytest.raises(DecodeError, match=r"host no-such-host\.invalid:443 \["):
        copied("https://no-such-host.invalid/a.mp4")
    with pytest.raises(DecodeError, match=r"is not a valid URL$"):
        copied("http:///a.mp4")


def refuse_after(server: str, requests: bytes) -> None:
    """Let an S3 server check keys, after this number of requests."""
    header = {"Content-Type": "text/plain"}
    urlopen(Request(f"{server}/moto-api/reset-auth", requests, header, method="POST")).close()


def test_buckets_that_are_not_there_and_keys_that_are_wrong(monkeypatch, tmp_path):
    pauses: list[float] = []
    monkeypatch.setattr(remote.time, "sleep", pauses.append)
    with bucket("films", {}) as (variables, _):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(DecodeError, match=r"no such object: there is no bucket of this name$"):
            copied("s3://other/a.mp4")
        refuse_after(variables["AWS_ENDPOINT_URL"], b"0")
        try:
            with pytest.raises(
                DecodeError, match=r"access is denied \(Forbidden\); check the name"
            ):
                copied("s3://films/a.mp4")
        finally:
            refuse_after(variables["AWS_ENDPOINT_URL"], b"inf")
        monkeypatch.setenv("AWS_PROFILE", "nobody")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        reason = (
            r"no credentials \(The config profile \(nobody\) could not be found\); set AWS_PROFILE"
        )
        with pytest.raises(DecodeError, match=reason):
            copied("s3://films/a.mp4")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    assert pauses == []  # none of these is tried again


def test_any_driver_of_fsspec():
    memory = fsspec.filesystem("memory")
    memory.pipe("/films/a.mp4", CONTENT)
    assert copied("memory://films/a.mp4") == CONTENT
    assert describe("memory://films/a.mp4").size_bytes == len(CONTENT)
    memory.rm("/films", recursive=True)
    with pytest.raises(DataError, match="unknown protocol 'nowhere'; expected s3://"):
        file_system("nowhere://a.mp4")


@pytest.mark.parametrize(("url", "extra"), [("gs://a/b.mp4", "gcs"), ("s3://a/b.mp4", "remote")])
def test_a_missing_driver_names_its_extra(monkeypatch, url, extra):
    def missing(_: str) -> None:
        raise ImportError("Install the driver")  # as fsspec does

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    with pytest.raises(
        DataError, match=rf"\(Install the driver\); pip install 'videopipe\[{extra}\]'"
    ):
        file_system(url)


def test_the_scratch_folder_is_bounded(site, monkeypatch):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH_GIGABYTES", str(700_000 / 2**30))
    with (
        pytest.raises(DecodeError, match=r"the scratch folder may hold 0\.000652 GiB"),
        local_copy(f"{site.url}/a.mp4"),
    ):
        pass


def test_files_of_killed_processes_are_removed_and_others_count(tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path))
    monkeypatch.setenv("VIDEOPIPE_SCRATCH_GIGABYTES", str(1000 / 2**30))
    left = tmp_path / "left.mp4"
    left.write_bytes(bytes(900))  # not locked
    with scratch.scratch_file("a", ".mp4", 600) as used:
        assert not left.exists()
        assert used.stat().st_size == 600
        assert scratch._reserve(tmp_path, ".mp4", 600) is None  # no room beside it
    reserved = scratch._reserve(tmp_path, ".mp4", 600)
    assert reserved is not None
    reserved.release()
