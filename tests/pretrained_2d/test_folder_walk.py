from pathlib import Path

from pretrained_2d.folder_walk import walk_folders
from videopipe.dataset.layouts.listing import videos_below
from videopipe.pipeline.fingerprint import digest_of_files
from videopipe.prediction.discovery import VideoListing


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
    assert found == ["a/one.mp4", "b/deep/one.mp4"]
    assert len(digest_of_files(top)) == 12


def test_folders_that_all_link_to_each_other_are_visited_once(tmp_path: Path) -> None:
    """Fourteen folders with a link to each of the others have 14! ways through them."""
    names = [f"{number:02}" for number in range(14)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.mp4").write_bytes(b"1")
        for other in names:
            if other != name:
                (tmp_path / name / f"to_{other}").symlink_to(tmp_path / other)
    assert list(videos_below(tmp_path)) == [tmp_path / name / "one.mp4" for name in names]
    assert [source.path for source in VideoListing([tmp_path])] == [
        str(tmp_path / name / "one.mp4") for name in names
    ]


def test_a_file_keeps_its_real_path_and_the_order_depends_on_names(tmp_path: Path) -> None:
    top = make_tree(tmp_path)
    (top / "a" / "0").symlink_to(top / "b")
    (tmp_path / "away" / "c").mkdir(parents=True)
    (top / "Z").symlink_to(tmp_path / "away")
    (top / "Y").symlink_to(tmp_path / "away" / "c")
    visited = [folder.relative_to(top).as_posix() for folder, _, _ in walk_folders(top)]
    assert visited == [".", "a", "b", "b/deep", "Y", "Z"]


def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    errors: list[OSError] = []
    assert not list(walk_folders(tmp_path / "gone", on_error=errors.append))
    assert [error.filename for error in errors] == [str(tmp_path / "gone")]


def test_a_link_to_elsewhere_is_followed(tmp_path: Path) -> None:
    top = make_tree(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "far.mp4").write_bytes(b"2")
    (top / "away").symlink_to(tmp_path / "elsewhere")
    assert top / "away" / "far.mp4" in list(videos_below(top))
