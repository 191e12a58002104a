"""Files and folders are complete or absent; leftovers of killed processes are removed."""

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


def test_partial_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    for name in ("kept.txt", ".kept", "state/.a.txt.0123abcd.partial", "state/a.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".model.89abcdef.partial").mkdir()
    (tmp_path / ".model.89abcdef.partial" / "weights").write_text("half")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".kept", "a.txt", "kept.txt", "state"]


def test_a_folder_whose_replacement_was_interrupted_is_restored(tmp_path: Path) -> None:
    (tmp_path / ".model.89abcdef.older").mkdir()
    (tmp_path / ".model.89abcdef.older" / "weights").write_text("whole")
    remove_leftovers(tmp_path)
    assert (tmp_path / "model" / "weights").read_text() == "whole"
