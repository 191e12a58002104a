"""Which videos are for training and validation; never the test set, except where requested."""

from pathlib import Path

import pytest

from videopipe.dataset.manifest import Manifest, VideoRecord
from videopipe.errors import DataError
from videopipe.finetuning.validation_split import choose_videos, videos_of


def manifest(*splits: str, val_is_test: bool = False) -> Manifest:
    records = [
        VideoRecord(path=f"{split}{number}", label=number % 2, split=split, status="ok")
        for split in splits
        for number in range(4)
    ]
    records += [
        VideoRecord(path=f"{split}-broken", label=0, split=split, status="failed", reason="cut")
        for split in splits
    ]
    return Manifest(
        labels=("a", "b"), records=tuple(records), root=Path("data"), val_is_test=val_is_test
    )


def splits_of(records: object) -> set[str]:
    return {record.split for record in records}


def test_by_default_the_checkpoint_is_chosen_on_validation_videos() -> None:
    found = choose_videos(manifest("train", "val", "test"), "validation")
    assert (splits_of(found.train), splits_of(found.validation)) == ({"train"}, {"val"})
    assert (found.protocol, found.left_out, len(found.train)) == ("validation", 1, 4)
    assert len(found.validation) == 5, "a broken validation video counts as a mistake"


def test_the_papers_protocol_chooses_on_the_test_videos() -> None:
    found = choose_videos(manifest("train", "val", "test"), "paper")
    assert (splits_of(found.train), splits_of(found.validation)) == ({"train", "val"}, {"test"})


def test_a_manifest_made_for_the_papers_protocol_is_called_by_its_name() -> None:
    found = choose_videos(manifest("train", "test", val_is_test=True), "validation")
    assert (found.protocol, splits_of(found.validation)) == ("paper", {"test"})


def test_last_learns_from_all_but_the_test_videos_and_chooses_nothing() -> None:
    found = choose_videos(manifest("train", "val", "test"), "last")
    assert (splits_of(found.train), list(found.validation)) == ({"train", "val"}, [])


def test_missing_splits_are_reported_with_the_existing_ones() -> None:
    with pytest.raises(DataError, match=r"no val videos.*4 test.*validation: carve"):
        choose_videos(manifest("train", "test"), "validation")
    with pytest.raises(DataError, match="no readable training video"):
        choose_videos(manifest("test"), "last")
    with pytest.raises(DataError, match="no labelled test videos, only 4 train"):
        videos_of(manifest("train"), "test")


def test_an_evaluation_includes_broken_videos() -> None:
    assert [r.path for r in videos_of(manifest("train", "test"), "test")][-1] == "test-broken"
