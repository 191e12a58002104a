"""File names with any bytes go through the index, the manifest and tables, and back."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from videopipe.cli import main
from videopipe.dataset.clips.training_clips import ClipDataset
from videopipe.dataset.frame_cache import cache_frames
from videopipe.dataset.indexing import Inspection, index_dataset
from videopipe.dataset.layouts.division import Division
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.manifest import read_manifest, write_manifest

CLASS, NAME = b"caf\xe9 \xff", b"clip \xe9\xe8 100%d.mp4"
LATIN = os.fsdecode(CLASS + b"/" + NAME)

names = st.binary(min_size=1, max_size=60).filter(
    lambda name: b"/" not in name and b"\0" not in name and not name.startswith(b".")
)


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory, tiny_video: Callable) -> Path:
    return tiny_video(tmp_path_factory.mktemp("film") / "film.mp4", num_frames=10, height=64)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, st.sets(names, min_size=1, max_size=3), min_size=1, max_size=3))
def test_any_name_goes_from_the_index_through_the_manifest_to_clips(
    film: Path, classes: dict[bytes, set[bytes]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data, index = Path(folder, "data"), Path(folder, "index")
        index.mkdir()
        made = set()
        for label, files in classes.items():
            (data / os.fsdecode(label)).mkdir(parents=True, exist_ok=True)
            for name in files:
                path = data / os.fsdecode(label) / os.fsdecode(name + b".mp4")
                shutil.copy(film, path)
                made.add(os.fsencode(path))
        found = find_dataset(data, "class_folders", Division(validation="none"))
        write_manifest(index, found)
        read = read_manifest(index)
        assert read.labels == found.labels
        assert {os.fsencode(label) for label in read.labels} == set(classes)
        assert {os.fsencode(record.path) for record in read.records} == made
        clips = ClipDataset(read.records, num_frames=2, clip_seconds=0.5)
        assert len(clips) == len(made)
        for number, record in enumerate(clips.records):
            clip, label = clips[number]
            assert clip.shape[:2] == (3, 2)
            assert read.labels[label] == Path(record.path).parent.name


@pytest.fixture
def data(tmp_path: Path, film: Path) -> Path:
    folder = tmp_path / os.fsdecode(b"\xe9t\xe9")
    (folder / LATIN).parent.mkdir(parents=True)
    shutil.copy(film, folder / LATIN)
    (folder / "walk").mkdir()
    shutil.copy(film, folder / "walk" / "b.mp4")
    return folder


def test_inspection_and_cache_take_any_name(data: Path, tmp_path: Path) -> None:
    inspection = Inspection(workers=1)
    out = tmp_path / "out"
    manifest = index_dataset(
        data, division=Division(validation="none"), inspection=inspection, folder=out
    )
    resumed = index_dataset(
        data, division=Division(validation="none"), inspection=inspection, folder=out
    )
    assert resumed == manifest
    cached = cache_frames(manifest, out / "frames", short_side=32, workers=1, timeout_seconds=60)
    write_manifest(out, cached)
    records = read_manifest(out).records
    assert {record.path for record in records} == {str(data / LATIN), str(data / "walk/b.mp4")}
    assert all(Path(record.frames_path or "").is_file() for record in records)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_the_table_of_a_check_names_the_files(
    suffix: str, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / f"health{suffix}"
    (data / "walk" / os.fsdecode(b"empty \xe9.mp4")).write_bytes(b"")
    assert main(["check", str(data), "--table", str(table), "--validation", "none", "-j1"]) == 1
    assert r"empty \xe9.mp4" in capfd.readouterr().out
    listed = find_dataset(table, division=Division(validation="none"))
    assert {record.path for record in listed.records} == {str(path) for path in data.rglob("*.mp4")}
    assert not any(record.status == "missing" for record in listed.records)
    assert os.fsdecode(CLASS) in listed.labels


def test_split_files_name_any_file(data: Path) -> None:
    """Bytes that are not UTF-8, and characters that only some programs take for a new line."""
    odd = os.fsdecode(b"a\xe9\x0b\xe2\x80\xa8 b.avi")
    (data / "walk" / odd).write_bytes(b"1")
    lists = data / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "trainlist01.txt").write_bytes(os.fsencode(f"walk/{odd} 1\r\n"))
    (lists / "testlist01.txt").write_bytes(os.fsencode(f"{LATIN}\n"))
    found = find_dataset(data, "ucf101", Division(validation="none"))
    assert [(record.path, record.split, record.status) for record in found.records] == [
        (str(data / "walk" / odd), "train", "unknown"),
        (str(data / LATIN), "test", "unknown"),
    ]
    (lists / "walk_test_split1.txt").write_bytes(os.fsencode(f"{odd} 2\n"))
    found = find_dataset(data, "hmdb51", Division(validation="none"))
    assert [(record.path, record.split) for record in found.records] == [
        (str(data / "walk" / odd), "test")
    ]
