import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from videopipe.errors import DataError
from videopipe.pipeline.stage import Inputs, Result
from videopipe.prediction.timeline.timeline_settings import TimelineSettings
from videopipe.scoring.settings import Execution, Scoring
from videopipe.stages.predict import STAGE, PredictConfig
from videopipe.video.writing import write_video

QUICK = Execution(device="cpu", workers=1, threads=1)


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> dict[str, Path]:
    """A 2D network and a data set with three unseen videos, one of them broken."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("given")
    network = build("timm/test_resnet", num_classes=2, ndim=2)
    card = ModelCard(
        architecture="timm/test_resnet",
        options={"num_classes": 2},
        labels=("a", "b"),
        preprocessing=Preprocessing(image_size=32, resize=32),
    )
    save_checkpoint(folder / "model", network, card)
    (folder / "data" / "unseen").mkdir(parents=True)
    for number in range(2):
        pictures = np.random.default_rng(number).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
        write_video(folder / "data" / "unseen" / f"{number}.mp4", pictures, frame_rate=12)
    (folder / "data" / "unseen" / "broken.mp4").write_bytes(b"no film")
    return {"model": folder / "model", "data": folder / "data"}


def inputs(**folders: Path) -> Inputs:
    return Inputs({name: [Result(folder, name)] for name, folder in folders.items()})


def test_unseen_videos_of_a_data_set(given, tmp_path):
    config = PredictConfig(file_format="jsonl", execution=QUICK, scoring=Scoring(clips=2))
    summary = STAGE.run(config, inputs(**given), tmp_path)
    assert summary["statuses"] == {"error": 1, "ok": 2}
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text().splitlines()]
    assert [Path(row["path"]).name for row in rows] == ["0.mp4", "1.mp4", "broken.mp4"]
    assert rows[0]["clips"] == 2


def test_videos_by_path_and_a_limit_of_failures(given, tmp_path):
    config = PredictConfig(videos=given["data"] / "unseen", max_failed=0, execution=QUICK)
    with pytest.raises(DataError, match=r"1 of 3 rows are not ok, more than max_failed \(0\)"):
        STAGE.run(config, inputs(model=given["model"]), tmp_path)
    assert (tmp_path / "predictions.parquet").exists()


def test_only_what_failed_is_retried(given, tmp_path):
    folder, out = tmp_path / "result", tmp_path / "retried"
    videos = tmp_path / "videos"
    shutil.copytree(given["data"] / "unseen", videos)
    config = PredictConfig(videos=videos, file_format="csv", execution=QUICK)
    for place in (folder, out):
        place.mkdir()
    STAGE.run(config, inputs(model=given["model"]), folder)
    (failure,) = STAGE.failures(folder)
    assert (Path(failure.item).name, bool(failure.reason)) == ("broken.mp4", True)
    time.sleep(0.02)
    shutil.copy(videos / "0.mp4", videos / "broken.mp4")
    STAGE.keep(config, inputs(model=given["model"]), folder, out)
    STAGE.run(config, inputs(model=given["model"]), out)
    assert STAGE.failures(out) == []
    summary = json.loads((out / "predictions.csv.summary.json").read_text())
    assert summary["predicted_in_this_run"] == 1


def test_a_table_without_any_score_is_a_failure(given, tmp_path):
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos/broken.mp4").write_bytes(b"no film")
    config = PredictConfig(videos=tmp_path / "videos", execution=QUICK)
    with pytest.raises(DataError, match="no video could be scored"):
        STAGE.run(config, inputs(model=given["model"]), tmp_path)


def test_videos_must_come_from_one_place(given, tmp_path):
    for config, folders in (
        (PredictConfig(), {"model": given["model"]}),
        (PredictConfig(videos=tmp_path), given),
    ):
        with pytest.raises(DataError, match="and not both"):
            STAGE.run(config, inputs(**folders), tmp_path / "out")


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="top_k must be 1 or more, got 0"):
        PredictConfig(top_k=0)
    with pytest.raises(ValueError, match="max_failed must be 0 or more"):
        PredictConfig(max_failed=-1)


def test_a_timeline_is_merged_from_windows(given, tmp_path):
    config = PredictConfig(
        videos=given["data"] / "unseen", execution=QUICK, timeline=TimelineSettings(on=0.4, off=0.4)
    )
    summary = STAGE.run(config, inputs(model=given["model"]), tmp_path)
    assert summary["rows"] == 3  # one window of two seconds each, and the failure
    content = json.loads((tmp_path / "timeline.json").read_text())
    smooth = {"smooth_seconds": 2.0, "on": 0.4, "off": 0.4, "min_seconds": 0.0}
    assert content["settings"] == smooth
    assert [len(video["segments"]) for video in content["videos"]] == [1, 1, 0]
    with pytest.raises(ValueError, match=r"timeline needs windows; leave scoring.clips out"):
        PredictConfig(timeline=TimelineSettings(), scoring=Scoring(clips=1))
