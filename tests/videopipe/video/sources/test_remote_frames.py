"""Folders of frames behind URLs: found, copied and removed, with faults of the server."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.servers import Site, bucket, web_site
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DecodeError
from videopipe.prediction.discovery import VideoListing
from videopipe.system.content_id import content_id
from videopipe.video.sources import remote, remote_frames, scratch
from videopipe.video.sources.local_copy import local_copy
from videopipe.video.video import open_video


def picture(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (40, 30), (20 * number, 100, 50)).save(stream, format="PNG")
    return stream.getvalue()


PICTURES = {f"frames_{number:06}.png": picture(number) for number in range(1, 9)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "local"
    folder.mkdir()
    for name, content in PICTURES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """Pictures below `clip/`, which a page of links lists as Apache does."""
    monkeypatch.setattr(remote, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    with web_site() as site:
        site.files = {f"clip/{name}": content for name, content in PICTURES.items()}
        links = [f'<a href="{name}">{name}</a>' for name in (*PICTURES, "../", "?C=N;O=D")]
        site.files["clip/"] = f"<html>{'<br>'.join(links)}</html>".encode()
        yield site


def videos(
    *arguments: str | VideoRange, rate: float | None = 4.0
) -> list[tuple[str, float | None]]:
    return [(video.path, video.frame_rate) for video in VideoListing(arguments, rate)]


def test_a_copy_has_the_content_and_the_frames_of_the_folder(site, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_frames, "FRAMES_PER_CALL", 3)
    assert videos(f"{site.url}/clip/") == [(f"{site.url}/clip/", 4.0)]
    with local_copy(f"{site.url}/clip/") as copy, open_video(copy, frame_rate=4.0) as video:
        assert content_id(copy) == content_id(folder)
        assert video.duration_seconds == 2.0
        assert video.frames_at([1.3])[0, 0, 0, 0] == 20 * 6
    assert [file.name for file in (tmp_path / "scratch").iterdir()] == [".lock"]


def test_a_busy_server_a_cut_connection_and_a_missing_frame(site, monkeypatch):
    site.busy["clip/frames_000004.png"] = 2
    site.busy["clip/"] = 1
    with local_copy(f"{site.url}/clip/") as copy:
        assert {file.name: file.read_bytes() for file in copy.iterdir()} == PICTURES
    site.cut_after["clip/frames_000004.png"] = 0
    with pytest.raises(DecodeError, match="4 attempts"), local_copy(f"{site.url}/clip/"):
        pass
    site.cut_after.clear()
    del site.files["clip/frames_000007.png"]
    with pytest.raises(DecodeError, match="no such object"), local_copy(f"{site.url}/clip/"):
        pass
    site.files["album/"] = b'<a href="holiday.png">x</a>'
    no_frames = "expected a video, or a folder of numbered images"
    with pytest.raises(DecodeError, match=no_frames), local_copy(f"{site.url}/album/"):
        pass


def test_folders_patterns_and_lists_of_a_bucket(folder, tmp_path, monkeypatch, noisy_video):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    film = noisy_video(tmp_path / "film.mp4", 1)
    lines = ["path,frame_rate", "../day0/b,12", "../day1/film.mp4,", "s3://films/day0/a/,"]
    (tmp_path / "list.csv").write_text("\n".join([*lines, ""]))
    files = {f"day0/{clip}/{name}": folder / name for clip in "ab" for name in PICTURES}
    files |= {"day1/film.mp4": film, "day1/thumbnail_1.png": folder / "frames_000001.png"}
    files |= {"day1/thumbnail_2.png": folder / "frames_000002.png"}
    files |= {"lists/list.csv": tmp_path / "list.csv"}
    with bucket("films", files) as (variables, client):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        folders = [("s3://films/day0/a/", 4.0), ("s3://films/day0/b/", 4.0)]
        assert videos("s3://films/") == [*folders, ("s3://films/day1/film.mp4", None)]
        assert videos("s3://films/day0/*") == videos("s3://films/day*/[ab]") == folders
        assert videos("s3://films/day0/a", "s3://films/day0/a/") == folders[:1]
        assert videos(VideoRange("s3://films/day0/a", frame_rate=4.0)) == folders[:1]
        for place in ("s3://films/lists/list.csv", str(tmp_path / "here.csv")):
            local = [line.replace("../", "s3://films/") for line in lines]
            (tmp_path / "here.csv").write_text("\n".join([*local, ""]))
            assert videos(place) == [
                ("s3://films/day0/b/", 12.0), ("s3://films/day1/film.mp4", None), folders[0],
            ]  # fmt: skip
        listing = VideoListing(["s3://films/"])
        assert [video.path for video in listing] == ["s3://films/day1/film.mp4"]
        assert listing.frame_folders == 2
        with local_copy("s3://films/day0/a/") as copy:
            assert content_id(copy) == content_id(folder)
        with pytest.raises(DecodeError, match="no such object"), local_copy("s3://films/none/"):
            pass

        # A frame that is replaced while the folder is copied.
        original = remote_frames._contents

        def replaced(*arguments: object) -> dict[str, bytes]:
            found = original(*arguments)  # type: ignore[arg-type]
            client.put_object(Bucket="films", Key="day0/a/frames_000001.png", Body=picture(9))  # type: ignore[attr-defined]
            return found

        monkeypatch.setattr(remote_frames, "_contents", replaced)
        changed = "the folder changed while it was copied"
        with pytest.raises(DecodeError, match=changed), local_copy("s3://films/day0/a/"):
            pass


def test_a_list_of_kinetics_in_a_bucket(tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path / "scratch"))
    rows = ["label,youtube_id,time_start,time_end,split", "run,abcdefghijk,10,20,val",
            "run,whole-film_,3,13,val", "jump,gone-gone-g,0,10,val"]  # fmt: skip
    (tmp_path / "val.csv").write_text("\n".join([*rows, ""]))
    (tmp_path / "film").write_bytes(b"film")
    files = {"k/val.csv": tmp_path / "val.csv"}
    files |= {"k/val/run/abcdefghijk_000010_000020.mp4": tmp_path / "film"}
    files |= {"k/val/run/whole-film_.mkv": tmp_path / "film"}
    with bucket("films", files) as (variables, _):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert list(VideoListing(["s3://films/k/val.csv"])) == [
            VideoRange("s3://films/k/val/run/abcdefghijk_000010_000020.mp4"),
            VideoRange("s3://films/k/val/run/whole-film_.mkv", 3.0, 13.0),
            VideoRange("s3://films/k/gone-gone-g_000000_000010.mp4", 0.0, 10.0),
        ]


def test_a_folder_takes_its_room_and_is_removed_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("VIDEOPIPE_SCRATCH", str(tmp_path))
    monkeypatch.setenv("VIDEOPIPE_SCRATCH_GIGABYTES", str(1000 / 2**30))
    with scratch.scratch_subfolder("a/", 600) as used:
        (used / "1.png").write_bytes(b"x")
        assert scratch._reserve(tmp_path, "", 600) is None
        assert used.is_dir()
    killed = tmp_path / "killed.folder"
    killed.mkdir()
    (killed / "1.png").write_bytes(b"x")
    (tmp_path / "killed").touch()
    with scratch.scratch_file("b", ".mp4", 600) as file:
        assert sorted(tmp_path.iterdir()) == sorted([tmp_path / ".lock", file])
