"""Which videos become features."""

from dataclasses import replace
from pathlib import Path

import pytest

from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.errors import DataError
from videopipe.probing.views import chosen_videos


def test_the_splits_that_are_named_and_the_test_videos_of_the_papers_protocol() -> None:
    names = ("train", "test", "unused", "train")
    records = tuple(VideoRecord(path=str(n), split=name) for n, name in enumerate(names))
    manifest = Manifest(labels=("a",), records=records, root=Path("videos"))

    def paths(found: Manifest) -> list[str]:
        return [record.path for record in found.records]

    assert chosen_videos(manifest, None) is manifest
    assert paths(chosen_videos(manifest, ["train"])) == ["0", "3"]
    assert paths(chosen_videos(manifest, ["test", "train"])) == ["0", "1", "3"]
    with pytest.raises(DataError, match="splits names val, but videos has 1 test, 2 train"):
        chosen_videos(manifest, ["train", "val"])
    # There val is another name of the test split.
    paper = replace(manifest, val_is_test=True)
    assert paths(chosen_videos(paper, ["train", "val"])) == ["0", "1", "3"]
