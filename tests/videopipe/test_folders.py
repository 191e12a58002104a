from pathlib import Path

from videopipe.data.listing import videos_below
from videopipe.fingerprint import digest_of_files
from videopipe.folders import walk_folders


def make_tree(root: Path) -> Path:
    for name in ("b/deep", "a"):
        (root / "videos" / name).mkdir(parents=True)
        (root / "videos" / name / "one.mp4").write_bytes(b"1")
    return root / "videos"


def test_links_that_lead_back_are_not_followed(tmp_path: Path) -> None:
    top = make_tree(tmp_path)
    plain = list(videos_below(top))
    assert [path.relative_to(top).as_posix() for path in plain] == ["a/one.mp4", "b/deep/one.mp4"]
    (top / "a" / "up").symlink_to("..")
    (top / "b" / "deep" / "here").symlink_to(".")
    (top / "itself").symlink_to("itself")
    assert list(videos_below(top)) == plain
    assert [folder.name for folder, _, _ in walk_folders(top)] == ["videos", "a", "b", "deep"]


def test_links_that_meet_each_other_end(tmp_path: Path) -> None:
    top = make_tree(tmp_path)
    (top / "a" / "other").symlink_to("../b")
    (top / "b" / "other").symlink_to("../a")
    found = [path.relative_to(top).as_posix() for path in videos_below(top)]
    assert found == [
        "a/one.mp4",
        "a/other/deep/one.mp4",
        "b/deep/one.mp4",
        "b/other/one.mp4",
    ]
    assert len(digest_of_files(top)) == 12


def test_a_link_to_elsewhere_is_followed(tmp_path: Path) -> None:
    top = make_tree(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "far.mp4").write_bytes(b"2")
    (top / "away").symlink_to(tmp_path / "elsewhere")
    assert top / "away" / "far.mp4" in list(videos_below(top))
