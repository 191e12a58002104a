"""Tables of videos in a bucket, on a web site and in tar shards, killed and resumed."""

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from tests.processes import ENVIRONMENT, LONGEST_SECONDS, kill, start_paused
from tests.servers import bucket, web_site
from videopipe.cli import main
from videopipe.errors import DataError
from videopipe.prediction.discovery import VideoListing
from videopipe.video.sources import tar_shards

QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]
PAUSED = "videopipe.prediction.table.parts:PartWriter.add"


@pytest.fixture(scope="module")
def films(tmp_path_factory, noisy_video: Callable[..., Path]) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("films")
    return {f"day{n % 2}/{n}.mp4": noisy_video(folder / f"{n}.mp4", n) for n in range(4)}


@pytest.fixture
def in_bucket(films, monkeypatch, tmp_path) -> Iterator[object]:
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    with bucket("films", films) as (variables, client):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield client


def listed(*arguments: str) -> list[str]:
    return [video.path for video in VideoListing(arguments)]


def rows_of(out: Path) -> list[dict]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def command(model: Path, *words: object) -> None:
    """In a process of its own: the decoders of this one were started without the variables."""
    done = subprocess.run(
        [sys.executable, "-m", "videopipe", "predict", model, *map(str, words), *QUICK],
        env={**ENVIRONMENT, **os.environ}, capture_output=True, text=True, timeout=LONGEST_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def test_folders_patterns_and_lists_of_a_bucket(in_bucket):
    everything = [f"s3://films/day{n % 2}/{n}.mp4" for n in (0, 2, 1, 3)]
    assert listed("s3://films/") == everything
    assert listed("s3://films/day1") == everything[2:]
    assert listed("s3://films/day*/[23].mp4") == [everything[1], everything[3]]
    in_bucket.put_object(Bucket="films", Key="lists/all.txt", Body=b"../a.mp4\ns3://films/b.mp4\n")
    assert listed("s3://films/lists/all.txt") == ["s3://films/a.mp4", "s3://films/b.mp4"]
    with pytest.raises(DataError, match=r"no videos found in s3://films/none/"):
        listed("s3://films/none/")


def test_urls_that_cannot_be_read_here():
    for url, reason in {
        "file:///a.mp4": "give files of this machine as plain paths",
        "nowhere://films/a.mp4": "unknown protocol 'nowhere'; expected s3://",
        "az://films/a.mp4": r"needs a driver that is not installed \(Install adlfs .*\)$",
        "s3://": "names nothing; expected s3://BUCKET/videos/",
        "https://no-such-host.invalid/": "Cannot connect to host no-such-host.invalid:443",
    }.items():
        with pytest.raises(DataError, match=reason):
            listed(url)


def test_folders_of_a_site_that_cannot_be_read_are_told(monkeypatch):
    monkeypatch.setattr("videopipe.video.sources.remote.FIRST_PAUSE_SECONDS", 0.0)
    with web_site() as site:
        pages = {
            "films/": ["a.mp4", "./", "?C=N;O=D", "../", "day1/", "day2/", "old/"],
            "films/day1/": ["b.mp4", "more/"], "films/day1/more/": ["c.mp4"],
            "films/old/": ["e.mp4"],
        }  # fmt: skip
        site.files = {
            page: "".join(f'<a href="{name}">x</a>' for name in names).encode()
            for page, names in pages.items()
        }
        site.busy["films/old/"] = 2
        site.refused["films/day2/"] = 403
        top = f"{site.url}/films"
        listing = VideoListing([f"{top}/"])
        found = [video.path.removeprefix(f"{top}/") for video in listing]
        assert found == ["a.mp4", "day1/b.mp4", "day1/more/c.mp4", "old/e.mp4"]
        denied = "access is denied (status 403); check the name and the credentials"
        assert listing.problems == [f"{top}/day2/: folder cannot be read ({denied})"]
        assert listing.skipped == {}
        assert listed(f"{top}/day*/*.mp4") == [f"{top}/day1/b.mp4"]
        assert listed(f"{top}/day*") == [f"{top}/day1/b.mp4", f"{top}/day1/more/c.mp4"]
        assert listed(f"{top}/**/c.mp4") == [f"{top}/day1/more/c.mp4"]
        with pytest.raises(DataError, match=r"/none/: no such object; folders and patterns of a w"):
            listed(f"{site.url}/none/*.mp4")


@pytest.mark.slow
def test_a_bucket_killed_and_resumed_has_the_rows_of_the_files(
    tiny_model, films, in_bucket, tmp_path, monkeypatch
):
    out = tmp_path / "out.jsonl"
    words = [tiny_model, "s3://films/day0", "s3://films/day1/*.mp4", "s3://films/gone.mp4"]
    monkeypatch.setattr("tests.processes.ENVIRONMENT", {**ENVIRONMENT, **os.environ})
    kill(start_paused(PAUSED, 2, ["predict", *words, "--out", out, *QUICK]))
    command(*words, "--out", out)
    rows = {row["path"]: row for row in rows_of(out)}
    assert len(rows) == len(rows_of(out)) == 5
    assert rows["s3://films/gone.mp4"]["status"] == "missing"
    assert "no such object" in rows["s3://films/gone.mp4"]["error"]
    command(tiny_model, *films.values(), "--out", tmp_path / "files.jsonl")
    for row in rows_of(tmp_path / "files.jsonl"):
        name = Path(row["path"]).name
        (found,) = [rows[path] for path in rows if path.endswith(f"/{name}")]
        assert {**found, "id": 0, "path": 0} == {**row, "id": 0, "path": 0}
    assert [p.name for p in (tmp_path / "scratch").iterdir()] == [".lock"]

    # An object that is replaced is predicted again, and the one that was missing is tried again.
    time.sleep(1.1)  # servers give whole seconds
    in_bucket.put_object(Bucket="films", Key="day0/0.mp4", Body=films["day1/1.mp4"].read_bytes())
    in_bucket.put_object(Bucket="films", Key="gone.mp4", Body=films["day0/2.mp4"].read_bytes())
    command(*words, "--out", out)
    again = {row["path"]: row for row in rows_of(out)}
    assert {row["status"] for row in again.values()} == {"ok"}
    old, new = rows["s3://films/day1/1.mp4"], again["s3://films/day0/0.mp4"]
    assert new["content_id"] == old["content_id"]
    assert new["probability_1"] == old["probability_1"]
    assert len(again) == 5


@pytest.mark.slow
def test_a_failing_site_gives_rows_with_reasons(tiny_model, films, tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    content = films["day0/0.mp4"].read_bytes()
    with web_site() as site:
        site.files = dict.fromkeys(("good.mp4", "busy.mp4", "slow.mp4", "cut.mp4"), content)
        site.busy["busy.mp4"] = 1000
        site.slow_seconds["slow.mp4"] = 20.0
        site.cut_after["cut.mp4"] = 0
        urls = [f"{site.url}/{name}" for name in (*site.files, "gone.mp4")]
        (tmp_path / "list.txt").write_text("\n".join(urls))
        words = [tmp_path / "list.txt", "--out", tmp_path / "out.jsonl", "--timeout-seconds", "5"]
        command(tiny_model, *words)
    rows = {row["path"].rpartition("/")[2]: row for row in rows_of(tmp_path / "out.jsonl")}
    statuses = {name: row["status"] for name, row in rows.items()}
    assert statuses == {
        "good.mp4": "ok", "busy.mp4": "error", "slow.mp4": "timeout", "cut.mp4": "error",
        "gone.mp4": "missing",
    }  # fmt: skip
    assert "status 503 (4 attempts)" in rows["busy.mp4"]["error"]
    assert "(4 attempts)" in rows["cut.mp4"]["error"]


def shard_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def test_members_of_a_shard_are_videos(tiny_model, films, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    contents = {name: film.read_bytes() for name, film in films.items()}
    shard = shard_of(tmp_path / "films-00.tar", contents | {"0.json": b"{}", "bad.mp4": b"no"})
    out = tmp_path / "out.jsonl"
    words = ["--out", str(out), *QUICK]
    assert main(["predict", str(tiny_model), str(tmp_path / "*.tar"), *words]) == 0
    assert "skipped because of their names: 1 × .json" in capsys.readouterr().err
    rows = rows_of(out)
    assert [row["path"] for row in rows] == [f"{shard}/{name}" for name in (*films, "bad.mp4")]
    assert [row["status"] for row in rows] == [*["ok"] * 4, "error"]
    paths = [str(film) for film in films.values()]
    assert (
        main(["predict", str(tiny_model), *paths, "--out", str(tmp_path / "f.jsonl"), *QUICK]) == 0
    )
    for row, expected in zip(rows, rows_of(tmp_path / "f.jsonl"), strict=False):
        assert {**row, "id": 0, "path": 0} == {**expected, "id": 0, "path": 0}
    assert not (tmp_path / "scratch").exists()  # members are copied to memory

    # The column of paths is a list of the same videos; one that is not there has a row too.
    listing = tmp_path / "list.parquet"
    names = [*(row["path"] for row in rows[:2]), f"{shard}/gone.mp4"]
    parquet.write_table(pa.table({"path": names}), listing)
    words[1] = str(tmp_path / "again.jsonl")
    assert main(["predict", str(tiny_model), str(listing), *words]) == 0
    again = rows_of(tmp_path / "again.jsonl")
    assert again[:2] == rows[:2]
    assert (again[2]["status"], again[2]["error"]) == ("missing", "no such file in the shard")


def test_a_shard_behind_a_url(films, tmp_path, monkeypatch):
    from videopipe.video.sources.local_copy import local_copy

    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    contents = {f"{n}.mp4": film.read_bytes() for n, film in enumerate(films.values())}
    shard = shard_of(tmp_path / "films.tar", contents)
    with web_site() as site:
        site.files["films.tar"] = shard.read_bytes()
        url = f"{site.url}/films.tar"
        assert listed(url) == [f"{url}/{name}" for name in contents]
        with local_copy(f"{url}/2.mp4") as copy:
            assert copy.read_bytes() == contents["2.mp4"]


def test_the_indexes_of_shards_behind_urls_take_little_room(films, tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    shard = shard_of(tmp_path / "films.tar", {"a.mp4": b"a"}).read_bytes()
    with web_site() as site:

        def requests_of(number: int) -> list[str]:
            """Of a listing in which no index is in memory."""
            tar_shards._remote_members.cache_clear()
            site.requests.clear()
            listed(f"{site.url}/{number}.tar")
            return [verb for verb, _, _ in site.requests]

        site.files = {f"{number}.tar": shard for number in range(4)}
        for number in (0, 1, 2):
            assert "GET" in requests_of(number)
        indexes = list((tmp_path / "scratch" / "indexes").iterdir())
        size = sum(file.stat().st_size for file in indexes)
        monkeypatch.setattr(tar_shards, "LARGEST_INDEXES_BYTES", size)
        assert "GET" not in requests_of(0)
        assert "GET" in requests_of(3)
        assert len(list(indexes[0].parent.iterdir())) == 3
        for number in (0, 2, 3):
            assert "GET" not in requests_of(number)
        assert "GET" in requests_of(1)  # which was not used for the longest time


def test_a_compressed_shard_is_refused(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w:gz"):
        pass
    with pytest.raises(DataError, match="not an uncompressed tar file, or damaged after 0 members"):
        listed(str(tmp_path / "a.tar"))
    advice = r"their members cannot be addressed; decompress it first \(gunzip, bunzip2, unxz, unz"
    for name in ("b.tar.gz", "c.tgz", "d.TAR.zst"):
        (tmp_path / "a.tar").with_name(name).write_bytes((tmp_path / "a.tar").read_bytes())
        for argument in (str(tmp_path / name), f"s3://films/{name}", f"{tmp_path}/{name[0]}.*"):
            with pytest.raises(DataError, match=advice):
                listed(argument)
