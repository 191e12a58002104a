"""Evaluation at other frame rates: the rate of the time axis, and videos that cannot be read."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.manifest import write_manifest
from videopipe.errors import DataError
from videopipe.evaluation.score_table import read_metrics
from videopipe.evaluation.temporal_resolution import FixedTimeRate, resolution_table
from videopipe.models import load_model
from videopipe.pipeline.stage import Inputs
from videopipe.scoring.settings import Execution
from videopipe.stages.evaluate import EvaluateConfig, failures, keep, run

Given = Callable[..., Inputs]
ONE = Execution(device="cpu", workers=1, threads=1, batch_size=1)


def scored(config: EvaluateConfig, inputs: Inputs, out: Path) -> dict[str, Any]:
    out.mkdir(parents=True)
    run(config, inputs, out)
    return dict(read_metrics(out))


def test_other_frame_rates_with_and_without_the_rate(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    base = 8 / 1.2
    config = EvaluateConfig(frame_rates=(base, 2 * base), clip_lengths=(1.2, 0.6), execution=ONE)
    found = scored(config, given(model=model, clips=motion_clips), tmp_path / "out")
    table = found["temporal_resolution"]
    shapes = [(row["clip_seconds"], row["num_frames"], row["rate"]) for row in table]
    assert shapes == [(1.2, 8, 1.0), (1.2, 16, 0.5), (0.6, 4, 1.0), (0.6, 8, 0.5)]
    assert table[0]["with_rate"] == table[0]["without_rate"] == found["top1"]
    assert all(row["with_rate"]["trials"] == 8 for row in table)


def test_videos_that_are_away_during_the_other_frame_rates_make_no_wrong_number(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    videos = Path(shutil.copytree(motion_clips.parent / "videos", tmp_path / "videos"))
    write_manifest(tmp_path / "clips", find_dataset(videos))
    inputs = given(model=model, clips=tmp_path / "clips")
    config = EvaluateConfig(frame_rates=(16 / 1.2,), execution=ONE, max_failed=0.2)
    away: list[Path] = []

    def without_videos(*arguments: Any, **settings: Any) -> list[dict[str, Any]]:
        for path in away:
            path.rename(path.with_suffix(".away"))
        try:
            return resolution_table(*arguments, **settings)
        finally:
            for path in away:
                path.with_suffix(".away").rename(path)

    module = "videopipe.evaluation.operation"
    monkeypatch.setattr(f"{module}.resolution_table", without_videos)
    away[:] = videos.glob("test/*/*.mp4")
    with pytest.raises(DataError, match="8 of 8 videos have no scores"):
        scored(config, inputs, tmp_path / "refused")
    away[:] = away[:1]
    found = scored(config, inputs, tmp_path / "first")
    assert (found["failed"], len(found["temporal_resolution"][0]["failed"])) == (0, 1)
    assert [failure.item for failure in failures(tmp_path / "first")] == [str(away[0])]
    away.clear()
    (tmp_path / "second").mkdir()
    keep(config, inputs, tmp_path / "first", tmp_path / "second")
    run(config, inputs, tmp_path / "second")
    assert failures(tmp_path / "second") == []
    assert not (tmp_path / "second" / "scores.parts").exists()


def test_the_rate_reaches_the_time_axis_and_nothing_else(model: Path) -> None:
    network, _ = load_model(model)
    clip = torch.randn(1, 3, 8, 32, 32)
    with torch.no_grad():
        assert torch.equal(FixedTimeRate(network, 1.0)(clip), network(clip))
        assert torch.equal(FixedTimeRate(network, 0.5)(clip), network(clip, 0.5))
        assert not torch.equal(FixedTimeRate(network, 0.5)(clip), network(clip))
