"""Layouts of data sets are recognised and reported."""

import csv
import json
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from videopipe.dataset.layouts.division import Division, Layout
from videopipe.dataset.layouts.hmdb51 import film_of
from videopipe.dataset.layouts.recognise import LAYOUTS, find_dataset
from videopipe.dataset.manifest import Manifest
from videopipe.errors import DataError


def touch(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return root


def rows(manifest: Manifest) -> set[tuple[str, str | None, str | None]]:
    return {
        (
            str(Path(record.path).relative_to(manifest.root)),
            None if record.label is None else manifest.labels[record.label],
            record.split,
        )
        for record in manifest.records
    }


whole = Division(validation="none")


def test_every_layout_can_be_named() -> None:
    assert get_args(Layout) == ("auto", *LAYOUTS)


@pytest.mark.parametrize("split", [1, 2, 3])
def test_the_real_split_files_of_hmdb51(split: int, shared: Path) -> None:
    data = shared / "data/hmdb51"
    paper = find_dataset(data, division=Division(split=split, validation="paper"))
    counts = Counter(record.split for record in paper.records)
    assert counts == {"train": 3570, "test": 1530, "unused": 1666}
    assert list(paper.labels) == sorted(paper.labels)
    assert paper.labels == tuple((data / "labels.txt").read_text().split())
    assert paper.val_is_test
    per_class = Counter((record.label, record.split) for record in paper.records)
    assert all(per_class[label, "train"] == 70 for label in range(51))
    assert all(per_class[label, "test"] == 30 for label in range(51))
    assert sum(record.status != "missing" for record in paper.records) == 8
    assert "HMDB-51, split" in paper.layout


@pytest.mark.parametrize("split", [1, 2, 3])
def test_validation_is_carved_by_film(split: int, shared: Path) -> None:
    carved = find_dataset(shared / "data/hmdb51", division=Division(split=split))
    films = {
        name: {record.group for record in carved.records if record.split == name}
        for name in ("train", "val")
    }
    assert not films["train"] & films["val"]
    counts = Counter(record.split for record in carved.records)
    assert counts["train"] + counts["val"] == 3570
    assert counts["test"] == 1530
    assert 300 <= counts["val"] <= 450
    classes = {record.label for record in carved.records if record.split == "val"}
    assert classes == set(range(51))
    other = find_dataset(shared / "data/hmdb51", division=Division(split=split, seed=1))
    assert [r.split for r in other.records] != [r.split for r in carved.records]


def test_names_of_films() -> None:
    assert film_of("April_09_brush_hair_u_nm_np1_ba_goo_0.avi", "brush_hair") == "April_09"
    assert film_of("a_[b]_#1_&_;!_run_f_cm_np1_ba_med_3.avi", "run") == "a_[b]_#1_&_;!"


@pytest.mark.parametrize("folder", ["videos/", "", "hmdb51_org/", "hmdb51_org/wave/"])
@pytest.mark.parametrize(
    "lists", ["testTrainMulti_7030_splits", "test_train_splits", "annotations", "splits"]
)
def test_hmdb51_under_its_usual_names(folder: str, lists: str, tmp_path: Path) -> None:
    odd = "x (1) [2] #3 & ; !_wave_f_nm_np1_fr_goo_1.avi"
    touch(tmp_path, f"{folder}wave/{odd}", f"{folder}wave/b.avi", f"{folder}wave/more.avi")
    target = tmp_path / lists / "wave_test_split1.txt"
    target.parent.mkdir(exist_ok=True)
    target.write_text(f"{odd} 1 \nb.avi 2 \ngone.avi 1 \n")
    manifest = find_dataset(tmp_path, division=whole)
    found = {Path(r.path).name: (r.split, r.status) for r in manifest.records}
    assert found == {
        odd: ("train", "unknown"),
        "b.avi": ("test", "unknown"),
        "gone.avi": ("train", "missing"),
    }
    assert [Path(path).name for path in manifest.extra] == ["more.avi"]


@pytest.mark.parametrize("split", [1, 2, 3])
def test_every_split_has_its_own_lists(split: int, tmp_path: Path) -> None:
    hmdb51 = touch(tmp_path / "hmdb51", "wave/1.avi", "wave/2.avi", "wave/3.avi")
    ucf101 = touch(tmp_path / "ucf101", "wave/1.avi", "wave/2.avi", "wave/3.avi")
    (hmdb51 / "splits").mkdir()
    for number in (1, 2, 3):
        marks = "".join(f"{n}.avi {2 if n == number else 1}\n" for n in (1, 2, 3))
        (hmdb51 / f"splits/wave_test_split{number}.txt").write_text(marks)
        others = "".join(f"wave/{n}.avi 1\n" for n in (1, 2, 3) if n != number)
        (ucf101 / f"trainlist0{number}.txt").write_text(others)
        (ucf101 / f"testlist0{number}.txt").write_text(f"wave/{number}.avi\n")
    for folder in (hmdb51, ucf101):
        found = find_dataset(folder, division=Division(split=split, validation="none"))
        tested = [Path(r.path).stem for r in found.records if r.split == "test"]
        assert (tested, len(found.records)) == ([str(split)], 3)


def test_ucf101(tmp_path: Path) -> None:
    touch(tmp_path, "videos/Bowling/v_Bowling_g01_c01.avi", "videos/Archery/v_Archery_g02_c01.avi")
    lists = tmp_path / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("1 Archery\n2 Bowling\n")
    (lists / "trainlist01.txt").write_text("Bowling/v_Bowling_g01_c01.avi 2\n")
    (lists / "testlist01.txt").write_text("Archery/v_Archery_g02_c01.avi\n")
    manifest = find_dataset(tmp_path, division=whole)
    assert manifest.labels == ("Archery", "Bowling")
    assert {(r.label, r.split, r.group) for r in manifest.records} == {
        (1, "train", "v_Bowling_g01"),
        (0, "test", "v_Archery_g02"),
    }


def test_class_folders_with_and_without_splits(tmp_path: Path) -> None:
    split = touch(tmp_path / "s", "train/b/1.mp4", "train/a/2.avi", "validation/a/3.mkv")
    manifest = find_dataset(split)
    assert manifest.layout == "class folders in split folders (train, validation)"
    assert rows(manifest) == {
        ("train/b/1.mp4", "b", "train"),
        ("train/a/2.avi", "a", "train"),
        ("validation/a/3.mkv", "a", "val"),
    }
    plain = touch(tmp_path / "p", "b/1.mp4", "a/2.avi", "a/notes.txt")
    assert rows(find_dataset(plain, division=whole)) == {
        ("b/1.mp4", "b", "train"),
        ("a/2.avi", "a", "train"),
    }
    assert find_dataset(touch(tmp_path / "l", "1.mp4", "2.mp4")).layout == "videos without labels"


def test_leave_one_person_out(shared: Path) -> None:
    persons = set()
    for fold in range(9):
        manifest = find_dataset(shared / "data/weizmann", division=Division(num_folds=9, fold=fold))
        tested = {record.group for record in manifest.records if record.split == "test"}
        others = {record.group for record in manifest.records if record.split != "test"}
        assert len(tested) == 1
        assert not tested & others
        assert sum(record.split == "test" for record in manifest.records) == 10
        persons |= tested
    assert len(persons) == 9


def test_lists_of_mmaction(tmp_path: Path) -> None:
    touch(tmp_path, "videos/run/a b.avi", "videos/walk/c.avi")
    (tmp_path / "hmdb51_train_split_1_videos.txt").write_text("run/a b.avi 0\n")
    (tmp_path / "hmdb51_val_split_1_videos.txt").write_text("walk/c.avi 1\n")
    (tmp_path / "hmdb51_train_split_2_videos.txt").write_text("walk/c.avi 1\n")
    manifest = find_dataset(tmp_path)
    assert "mmaction lists" in manifest.layout
    assert rows(manifest) == {
        ("videos/run/a b.avi", "run", "train"),
        ("videos/walk/c.avi", "walk", "val"),
    }
    frames = tmp_path / "frames_train.txt"
    frames.write_text("run/clip_1 120 0\n")
    found = find_dataset(frames, division=whole).records[0]
    assert (found.path, found.status) == (str(tmp_path / "run/clip_1"), "missing")


def test_lists_of_slowfast(tmp_path: Path) -> None:
    touch(tmp_path, "a.mp4", "b.mp4")
    (tmp_path / "train.csv").write_text(f"{tmp_path}/a.mp4 1\n")
    (tmp_path / "test.csv").write_text("b.mp4 0\n")
    manifest = find_dataset(tmp_path, division=whole)
    assert "SlowFast lists" in manifest.layout
    assert rows(manifest) == {("a.mp4", "1", "train"), ("b.mp4", "0", "test")}


def test_kinetics(tmp_path: Path) -> None:
    touch(tmp_path, "videos/abc_000010_000020.mp4", "videos/xyz.mp4")
    with (tmp_path / "train.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["label", "youtube_id", "time_start", "time_end", "split"])
        table.writerow(["riding a bike", "abc", "10", "20", "train"])
        table.writerow(["bowling", "xyz", "3", "13", "validate"])
        table.writerow(["bowling", "gone", "0", "10", "train"])
    manifest = find_dataset(tmp_path)
    assert manifest.labels == ("bowling", "riding a bike")
    trimmed, whole_file, gone = manifest.records
    assert (trimmed.label, trimmed.start_seconds) == (1, None)
    assert (whole_file.split, whole_file.start_seconds, whole_file.end_seconds) == ("val", 3, 13)
    assert gone.status == "missing"


def test_tables_with_paths(tmp_path: Path) -> None:
    touch(tmp_path, "clips/a.mp4", "clips/b.mp4")
    table = tmp_path / "all.csv"
    table.write_text("path,label,start,end\nclips/a.mp4,jump,1.5,3\nclips/b.mp4,run,,\n")
    manifest = find_dataset(table, division=whole)
    assert [(r.start_seconds, r.end_seconds) for r in manifest.records] == [(1.5, 3), (None, None)]
    lines = [{"path": "clips/a.mp4", "label": "jump", "split": "test"}, {"path": "clips/b.mp4"}]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = find_dataset(tmp_path / "all.jsonl", division=whole)
    assert rows(manifest) == {("clips/a.mp4", "jump", "test"), ("clips/b.mp4", None, "train")}


def test_mistakes_are_named_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        find_dataset(tmp_path / "nowhere")
    with pytest.raises(DataError, match="no data set found"):
        find_dataset(tmp_path)
    table = tmp_path / "bad.csv"
    table.write_text("path,start,end\na.mp4,5,2\n")
    with pytest.raises(DataError, match=r"bad.csv:2: 5.0 to 2.0 seconds"):
        find_dataset(table)
    table.write_text("path,start\na.mp4,soon\n")
    with pytest.raises(DataError, match=r"bad.csv:2: 'soon' is not a time; expected seconds"):
        find_dataset(table)
    (tmp_path / "bad.jsonl").write_text('{"path": "a"}\n{oops\n')
    with pytest.raises(DataError, match=r"bad.jsonl:2: not JSON"):
        find_dataset(tmp_path / "bad.jsonl")
    touch(tmp_path / "h", "run/a.avi")
    (tmp_path / "h/run_test_split1.txt").write_text("a.avi 7\n")
    with pytest.raises(DataError, match=r"split1.txt:1: expected a file name and 0, 1 or 2"):
        find_dataset(tmp_path / "h")
    touch(tmp_path / "c", "x/1.mp4", "y/2.mp4")
    with pytest.raises(DataError, match="num_folds is 5; expected 2 to 2"):
        find_dataset(tmp_path / "c", division=Division(num_folds=5))
