"""Whole or not there, and nothing left behind by the killed."""

from pathlib import Path

import pytest

from pretrained_2d.atomic import new_folder, remove_leftovers, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def fail_halfway(path: Path) -> None:
    with new_folder(path) as folder:
        (folder / "weights").write_text("new")
        raise RuntimeError


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a.txt", "\ud800")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    with new_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("old")
    with pytest.raises(RuntimeError):
        fail_halfway(tmp_path / "model")
    assert (tmp_path / "model" / "weights").read_text() == "old"
    assert names(tmp_path) == ["model", "weights"]


def test_what_the_killed_left_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    for name in ("kept.txt", ".kept", "state/.a.txt.0123abcd.partial", "state/a.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".model.89abcdef.partial").mkdir()
    (tmp_path / ".model.89abcdef.partial" / "weights").write_text("half")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".kept", "a.txt", "kept.txt", "state"]


def test_a_folder_that_made_way_for_nothing_comes_back(tmp_path: Path) -> None:
    (tmp_path / ".model.89abcdef.older").mkdir()
    (tmp_path / ".model.89abcdef.older" / "weights").write_text("whole")
    remove_leftovers(tmp_path)
    assert (tmp_path / "model" / "weights").read_text() == "whole"
