import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from videopipe.dataset.lists.video_range import VideoRange, path_as_text
from videopipe.dataset.manifest import Manifest, VideoRecord, write_manifest
from videopipe.errors import DataError
from videopipe.prediction.discovery import VideoListing


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def find_videos(arguments: list[object]) -> VideoListing:
    listing = VideoListing(arguments)
    listing.videos = list(listing)
    return listing


def names(arguments: list[str | Path], below: Path) -> list[str]:
    return [str(Path(s.path).relative_to(below)) for s in find_videos(arguments).videos]


def test_folders_are_searched_at_any_depth_in_order_of_names(tmp_path):
    touch(tmp_path, "b.mp4", "a/z.AVI", "a/deep/er/x.webm", "a/y y.mkv", "notes.txt", ".hidden.mp4")
    listing = find_videos([tmp_path])
    found = [str(Path(source.path).relative_to(tmp_path)) for source in listing.videos]
    assert found == ["a/deep/er/x.webm", "a/y y.mkv", "a/z.AVI", "b.mp4"]
    assert listing.skipped == {".txt": 1}
    assert listing.problems == []


def test_files_of_our_own_are_not_videos(tmp_path):
    touch(tmp_path, "a.mp4", "out.parquet.parts/x.mp4", ".out.csv.1.team/y.mp4")
    assert names([tmp_path], tmp_path) == ["a.mp4"]


def test_links_are_followed_once_and_loops_end(tmp_path):
    touch(tmp_path, "videos/real/a.mp4", "elsewhere/b.mp4")
    (tmp_path / "videos" / "loop").symlink_to(tmp_path / "videos")
    (tmp_path / "videos" / "again").symlink_to(tmp_path / "videos" / "real")
    (tmp_path / "videos" / "away").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "videos" / "dead.mp4").symlink_to(tmp_path / "nowhere.mp4")
    assert names([tmp_path / "videos"], tmp_path) == [
        "videos/away/b.mp4",
        "videos/dead.mp4",
        "videos/real/a.mp4",
    ]


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run as another user for a while, since root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_an_unreadable_folder_is_a_recorded_problem():
    with TemporaryDirectory() as name:
        folder = touch(Path(name), "a.mp4", "locked/b.mp4")
        folder.chmod(0o755)
        (folder / "locked").chmod(0o700 if os.geteuid() == 0 else 0)
        with as_nobody():
            listing = find_videos([folder])
        (folder / "locked").chmod(0o755)
    assert [Path(source.path).name for source in listing.videos] == ["a.mp4"]
    assert listing.problems == [f"{folder}/locked: folder cannot be read (Permission denied)"]


def test_a_file_named_outright_is_taken_whatever_its_name(tmp_path):
    touch(tmp_path, "film.xyz")
    assert names([tmp_path / "film.xyz", tmp_path / "not there.mp4"], tmp_path) == [
        "film.xyz",
        "not there.mp4",
    ]


def test_patterns(tmp_path):
    touch(tmp_path, "x1.mp4", "x2.mp4", "x3.txt", "deep/x4.mp4", "odd[1].mp4", "odd1.mp4")
    assert names([str(tmp_path / "x*")], tmp_path) == ["x1.mp4", "x2.mp4"]
    assert "deep/x4.mp4" in names([str(tmp_path / "**" / "*.mp4")], tmp_path)
    # A file of this name takes precedence over its name as a pattern.
    assert names([str(tmp_path / "odd[1].mp4")], tmp_path) == ["odd[1].mp4"]
    listing = find_videos([str(tmp_path / "x1.mp4"), str(tmp_path / "none*")])
    assert listing.problems == [f"{tmp_path}/none*: the pattern matches nothing"]


def test_the_same_file_is_one_video(tmp_path, monkeypatch):
    touch(tmp_path, "a.mp4")
    monkeypatch.chdir(tmp_path)
    listing = find_videos([tmp_path, "a.mp4", "./a.mp4", VideoRange("a.mp4", 1.0, 2.0)])
    assert [(Path(s.path).name, s.start_seconds) for s in listing.videos] == [
        ("a.mp4", None),
        ("a.mp4", 1.0),
    ]


def test_list_files_and_standard_input(tmp_path, monkeypatch):
    touch(tmp_path, "lists/a b.mp4", "here.mp4")
    (tmp_path / "lists" / "some.txt").write_bytes(b"a b.mp4\r\n\n# not this\nhere.mp4\ngone.mp4")
    monkeypatch.chdir(tmp_path)
    found = [source.path for source in find_videos(["lists/some.txt"]).videos]
    assert found == ["lists/a b.mp4", "here.mp4", "gone.mp4"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x.mp4\n\xff.mp4\n")))
    found = [source.path for source in find_videos(["-"]).videos]
    assert found == ["x.mp4", os.fsdecode(b"\xff.mp4")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", "path,label,start_seconds,end_seconds\na.mp4,x,1.5,3\na.mp4,x,,\n"),
        ("m.tsv", "start\tend\tvideo\n1.5\t3\ta.mp4\n\t\ta.mp4\n"),
        ("m.jsonl", '{"path": "a.mp4", "start": 1.5, "end": 3}\n\n{"path": "a.mp4"}\n'),
    ],
)
def test_manifests_with_ranges(tmp_path, name, text):
    touch(tmp_path, "a.mp4")
    (tmp_path / name).write_text(text)
    path = str(tmp_path / "a.mp4")
    assert find_videos([tmp_path / name]).videos == [VideoRange(path, 1.5, 3.0), VideoRange(path)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.csv", "a\nb.mp4\n", "m.csv:1: the columns are a; expected one of them to be 'path'"),
        ("m.csv", "path,start\na.mp4,soon\n", "m.csv:2: 'soon' is not a time; expected seconds"),
        (
            "m.csv",
            "path,start,end\na.mp4,3,2\n",
            "m.csv:2: 3.0 to 2.0 seconds is not a range",
        ),
        ("m.csv", "path,start\na.mp4,nan\n", "nan to None seconds is not a range"),
        ("m.jsonl", '{"path": "a.mp4"}\n{', "m.jsonl:2: not JSON"),
        ("m.jsonl", "[1]\n", "m.jsonl:1: expected an object"),
        ("m.jsonl", '{"label": 3}\n', "m.jsonl:1: no path"),
    ],
)
def test_bad_manifests_say_where_and_what(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        find_videos([tmp_path / name])
    assert message in str(caught.value)


def test_the_manifest_of_a_data_set_names_its_videos(tmp_path):
    touch(tmp_path, "data/a.mp4", "data/b.mp4", "data/not listed.mp4")
    paths = [str(tmp_path / "data" / name) for name in ("a.mp4", "b.mp4")]
    records = [VideoRecord(path=paths[0], start_seconds=1.0, end_seconds=2.0)]
    records.append(VideoRecord(path=paths[1]))
    manifest = Manifest(labels=(), records=tuple(records), root=tmp_path / "data")
    write_manifest(tmp_path / "clips", manifest)
    expected = [VideoRange(paths[0], 1.0, 2.0), VideoRange(paths[1])]
    assert find_videos([tmp_path / "clips"]).videos == expected
    assert find_videos([tmp_path / "clips" / "manifest.jsonl"]).videos == expected


def test_nothing_found_says_what_was_skipped(tmp_path):
    touch(tmp_path, "a.doc", "b.doc", "c")
    with pytest.raises(DataError) as caught:
        find_videos([tmp_path, str(tmp_path / "*.mp4")])
    assert "no videos found" in str(caught.value)
    assert "2 × .doc, 1 × (no suffix)" in str(caught.value)
    assert "the pattern matches nothing" in str(caught.value)
    with pytest.raises(DataError, match="an empty list of paths"):
        find_videos([])


def test_names_that_are_not_text_have_a_printable_form_and_distinct_ids():
    odd, other = os.fsdecode(b"caf\xe9.mp4"), os.fsdecode(b"caf\xe8.mp4")
    assert path_as_text(odd) == "caf\\xe9.mp4"
    assert path_as_text("café.mp4") == "café.mp4"
    ids = {VideoRange(path).id for path in (odd, other)}
    ids |= {VideoRange(odd, 0.0).id, VideoRange(odd, 0.0, 1.0).id}
    assert len(ids) == 4


def test_a_mistyped_folder_is_no_video(tmp_path):
    (tmp_path / "film.mp4").write_bytes(b"x")
    with pytest.raises(DataError, match="vidoes: no such file or folder"):
        find_videos([tmp_path / "vidoes"])
    found = find_videos([tmp_path / "vidoes", tmp_path / "film.mp4"])
    assert [Path(source.path).name for source in found.videos] == ["vidoes", "film.mp4"]
