"""Evaluations give the same scores in every execution, equal predictions, and have every video."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pretrained_2d.checkpoints.folder import save_checkpoint
from tests.processes import ACCELERATE, TORCHRUN, kill, start_paused
from tests.processes import run as run_to_end
from videopipe.cli import main
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.manifest import VideoRecord, read_manifest, write_manifest
from videopipe.errors import DataError
from videopipe.evaluation.labelled import class_of
from videopipe.evaluation.score_table import read_metrics, read_scores
from videopipe.models import load_model
from videopipe.pipeline.stage import Inputs
from videopipe.prediction.table.parts import read_journal
from videopipe.scoring.settings import Execution, Scoring
from videopipe.stages.evaluate import EvaluateConfig, keep, run

Given = Callable[..., Inputs]
ONE = Execution(device="cpu", workers=1, threads=1, batch_size=1)


def scored(config: EvaluateConfig, inputs: Inputs, out: Path) -> dict[str, Any]:
    out.mkdir(parents=True)
    summary = run(config, inputs, out)
    metrics: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    top1 = [metrics["top1"][name] for name in ("value", "low", "high")]
    # Rounded to four digits, 127 of 152 would be printed as 83.5 % in place of 83.6 %.
    assert [summary["top1"], *summary["interval"]] == pytest.approx(top1, abs=1e-6)
    return metrics


def test_scores_are_the_same_bits_however_they_are_computed(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    inputs = given(model=model, clips=motion_clips)
    many = Execution(device="cpu", workers=3, threads=2, batch_size=4)
    first = scored(EvaluateConfig(execution=ONE), inputs, tmp_path / "one")
    second = scored(EvaluateConfig(execution=many), inputs, tmp_path / "many")
    assert first == second
    one, two = (tmp_path / name / "scores.parquet" for name in ("one", "many"))
    assert one.read_bytes() == two.read_bytes()
    assert (first["videos"], first["failed"], first["split"]) == (8, 0, "test")
    assert first["model"]["parameters"] > 1000
    assert first["sampling"] == "8 frames over 1.2 s, as many as cover each video"
    assert first["protocol_note"].endswith("no test video was used.")


def test_prediction_by_another_process_gives_the_same_bits(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    run_out = tmp_path / "scores"
    scored(EvaluateConfig(execution=ONE), given(model=model, clips=motion_clips), run_out)
    table = read_scores(run_out)
    command = [sys.executable, "-m", "videopipe", "predict", model, *table.paths]
    options = ["--out", tmp_path / "predictions.parquet", "--scores", "--workers", "2"]
    subprocess.run([*command, *options], check=True, capture_output=True)
    rows = pq.read_table(tmp_path / "predictions.parquet").to_pylist()
    predicted = {row["path"]: row["scores"] for row in rows}
    for path, scores in zip(table.paths, table.scores, strict=True):
        np.testing.assert_array_equal(np.array(predicted[path], dtype=np.float32), scores)


PIPELINE = """
name: shared
stages:
  model: {{use: adopt, config: {{checkpoint: {model}}}}}
  clips: {{use: decode, config: {{data: {videos}, workers: 1}}}}
  scores:
    use: evaluate
    inputs: {{model: model, clips: clips}}
    config: {{frame_rates: [10.0], execution: {{workers: 1, device: cpu}}}}
  table: {{use: compare, inputs: {{scores: scores}}}}
"""
LAUNCHERS = {"torchrun": TORCHRUN, "accelerate": ACCELERATE}


@pytest.mark.slow
def test_two_processes_share_the_videos_and_leave_the_files_of_one(
    model: Path, motion_clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PIPELINE.format(model=model, videos=motion_clips.parent / "videos")
    (tmp_path / "shared.yaml").write_text(text)
    assert main(["run", "shared.yaml", "--runs", "one"]) == 0
    (one,) = tmp_path.glob("one/scores-*")
    for name, launcher in LAUNCHERS.items():
        run_to_end([*launcher, "-m", "videopipe", "run", "shared.yaml", "--runs", name], tmp_path)
        (two,) = tmp_path.glob(f"{name}/scores-*")
        np.testing.assert_array_equal(read_scores(one).scores, read_scores(two).scores)
        assert read_metrics(one) == read_metrics(two)


EVALUATE = """
import sys
from pathlib import Path
from videopipe.pipeline.stage import Inputs, Result
from videopipe.scoring.settings import Execution
from videopipe.stages.evaluate import EvaluateConfig, keep, run
if __name__ == "__main__":
    model, clips, out = map(Path, sys.argv[1:])
    inputs = Inputs({"model": [Result(model, "model")], "clips": [Result(clips, "clips")]})
    run(EvaluateConfig(execution=Execution(device="cpu", workers=1, threads=1)), inputs, out)
"""


def test_a_killed_evaluation_resumes_without_scoring_a_finished_video_again(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    videos = Path(shutil.copytree(motion_clips.parent / "videos", tmp_path / "videos"))
    write_manifest(tmp_path / "clips", find_dataset(videos))
    (tmp_path / "program.py").write_text(EVALUATE)
    out = tmp_path / "out"
    out.mkdir()
    program = [tmp_path / "program.py", model, tmp_path / "clips", out]
    kill(start_paused("videopipe.prediction.table.parts:PartWriter.add", 3, program))
    finished = [row for path in out.glob("*/*.journal") for row in read_journal(path)]
    assert len(finished) == 3
    for row in finished:  # a video that is decoded again will be missing
        Path(row["path"]).rename(f"{row['path']}.away")
    run(EvaluateConfig(execution=ONE), given(model=model, clips=tmp_path / "clips"), out)
    inputs = given(model=model, clips=motion_clips)
    whole = scored(EvaluateConfig(execution=ONE), inputs, tmp_path / "whole")
    table = read_scores(out)
    assert not table.failed
    np.testing.assert_array_equal(table.scores, read_scores(tmp_path / "whole").scores)
    assert read_metrics(out)["top1"] == whole["top1"]
    assert not (out / "scores.parts").exists(), "the complete table replaces the journal"


def test_only_failed_videos_are_retried(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    videos = Path(shutil.copytree(motion_clips.parent / "videos", tmp_path / "videos"))
    write_manifest(tmp_path / "clips", find_dataset(videos))
    test = sorted(videos.glob("test/*/*.mp4"))
    good = test[0].read_bytes()
    test[0].write_bytes(b"no video")
    inputs = given(model=model, clips=tmp_path / "clips")
    config = EvaluateConfig(execution=ONE, max_failed=0.5)
    assert scored(config, inputs, tmp_path / "first")["failed"] == 1
    for path in test[1:]:  # a video that is decoded again will be missing
        path.rename(path.with_suffix(".away"))
    test[0].write_bytes(good)
    (tmp_path / "second").mkdir()
    keep(config, inputs, tmp_path / "first", tmp_path / "second")
    assert run(config, inputs, tmp_path / "second")["failed"] == 0


def test_unreadable_videos_count_as_mistakes_and_are_named(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    manifest = read_manifest(motion_clips)
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"this is no video")
    records = [r for r in manifest.records if r.split == "test"][:3]
    records.append(VideoRecord(path=str(broken), label=1, split="test", status="error"))
    records.append(VideoRecord(path=str(tmp_path / "gone.mp4"), label=0, split="test"))
    write_manifest(tmp_path / "clips", replace(manifest, records=tuple(records)))
    inputs = given(model=model, clips=tmp_path / "clips")
    with pytest.raises(DataError, match=r"2 of 5 videos have no scores, .* max_failed \(0\.05"):
        scored(EvaluateConfig(execution=ONE), inputs, tmp_path / "refused")
    assert list((tmp_path / "refused").glob("*.json")) == []
    config = EvaluateConfig(execution=ONE, max_failed=0.5)
    found = scored(config, inputs, tmp_path / "out")
    assert (found["videos"], found["failed"], found["top1"]["trials"]) == (5, 2, 5)
    table = read_scores(tmp_path / "out")
    assert [bool(reason) for reason in table.reasons] == [False, False, False, True, True]
    assert table.statuses == ("ok", "ok", "ok", "error", "missing")


def test_classes_are_matched_by_name_not_by_number() -> None:
    record = VideoRecord(path="x.mp4", label=0)
    assert class_of(record, ("walk", "run"), ("jump", "run", "walk")) == 2
    with pytest.raises(DataError, match=r"shows 'walk', which the model does not know.*jump, run"):
        class_of(record, ("walk", "run"), ("jump", "run"))
    with pytest.raises(DataError, match="has no label"):
        class_of(VideoRecord(path="x.mp4"), ("walk",), ("walk",))


def test_crops_and_averages_change_the_scores(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    # Three crops of a square video would be equal, so videos are scaled to be wider than the crop.
    wide = tmp_path / "wide"
    network, card = load_model(model)
    save_checkpoint(
        wide, network, replace(card, preprocessing=replace(card.preprocessing, image_size=24))
    )
    inputs = given(model=wide, clips=motion_clips)
    plans = {
        "plain": Scoring(),
        "probabilities": Scoring(average="probabilities"),
        "crops": Scoring(crops=3),
    }
    tables = {}
    for name, scoring in plans.items():
        scored(EvaluateConfig(scoring=scoring, execution=ONE), inputs, tmp_path / name)
        tables[name] = read_scores(tmp_path / name)
    assert (tables["crops"].clips == 3 * tables["plain"].clips).all()
    assert not np.array_equal(tables["plain"].scores, tables["crops"].scores)
    np.testing.assert_allclose(tables["plain"].scores.sum(axis=1), 1, rtol=1e-5)


def test_the_papers_protocol_and_training_videos_are_reported(
    model: Path, motion_clips: Path, given: Given, tmp_path: Path
) -> None:
    folder = tmp_path / "paper"
    shutil.copytree(model, folder)
    network, card = load_model(model)
    save_checkpoint(folder, network, replace(card, provenance={"protocol": "paper"}))
    config = EvaluateConfig(split="train", execution=ONE)
    found = scored(config, given(model=folder, clips=motion_clips), tmp_path / "out")
    assert found["protocol"] == "paper"
    assert "chosen on the test videos" in found["protocol_note"]
    assert "training videos" in found["protocol_note"]


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"frame_rates is \(0.0,\)"):
        EvaluateConfig(frame_rates=(0.0,))
    with pytest.raises(ValueError, match="clip_lengths is given without frame_rates"):
        EvaluateConfig(clip_lengths=(1.0,))
    with pytest.raises(ValueError, match=r"scoring\.windows is for prediction"):
        EvaluateConfig(scoring=Scoring(windows=True))
