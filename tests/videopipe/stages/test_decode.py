"""The decode stage, run as the runner runs it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from videopipe.dataset.manifest import read_manifest
from videopipe.errors import DataError
from videopipe.pipeline.stage import Inputs, Result
from videopipe.stages.decode import STAGE, DecodeConfig
from videopipe.video.video import open_video


@pytest.fixture
def data(tmp_path: Path, tiny_video: Callable) -> Path:
    for name in ("train/a/1", "train/b/2", "test/a/3"):
        tiny_video(tmp_path / f"data/videos/{name}.mp4", num_frames=20, height=64, width=96)
    (tmp_path / "data/videos/test/a/broken.mp4").write_bytes(b"no")
    return tmp_path / "data"


def test_a_manifest_and_frames_at_training_size(data: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    out.mkdir()
    config = DecodeConfig(validation="none", cache="frames", cache_short_side=32, depth="full")
    inputs = Inputs({"data": [Result(folder=data, stage="made")]})
    summary = STAGE.run(config, inputs, out)
    assert summary["videos"] == 4
    assert summary["left_out"] == 1
    assert summary["splits"] == {"test": 1, "test_left_out": 1, "train": 2}
    said = capsys.readouterr().err
    assert "found class folders in split folders (test, train): 4 videos" in said
    assert "broken.mp4: cannot be opened" in said
    assert "caching 3 videos will take about" in said
    moved = out.rename(tmp_path / "renamed by the runner")
    for record in read_manifest(moved).records:
        if not record.usable:
            assert record.frames_path is None
            continue
        with open_video(record.path, short_side=32) as film, open_video(record.frames_path) as kept:
            times = [(index + 0.5) / 15 for index in range(20)]
            assert (kept.height, kept.width) == (32, 48)
            assert abs(kept.duration_seconds - film.duration_seconds) < 0.01
            difference = film.frames_at(times).float() - kept.frames_at(times).float()
            assert difference.abs().mean(dim=(1, 2, 3)).max() < 2.5
    assert not list(moved.glob("*inspected*"))


def test_unreadable_videos_can_be_limited(data: Path, tmp_path: Path) -> None:
    config = DecodeConfig(data=data / "videos", max_unreadable=0, depth="header")
    with pytest.raises(DataError, match=r"1 videos cannot be used, more than max_unreadable \(0\)"):
        STAGE.run(config, Inputs({}), tmp_path)
    with pytest.raises(DataError, match="decode has no videos"):
        STAGE.run(DecodeConfig(), Inputs({}), tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"split": 4}, "split must be 1, 2 or 3, got 4"),
        ({"val_fraction": 1.0}, "val_fraction must lie between 0 and 1"),
        ({"num_folds": 3, "fold": 3}, "fold must be 0 to 2, got 3"),
        ({"workers": 0}, "workers must be at least 1"),
    ],
)
def test_wrong_values_are_named(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecodeConfig(**wrong)
