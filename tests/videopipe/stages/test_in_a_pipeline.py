"""Stages together, on real files: data that move, lists, names in any bytes, failed videos."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from videopipe.cli import main
from videopipe.dataset.manifest import read_manifest
from videopipe.pipeline.fingerprint import digest_of_files, digest_of_listed_videos

HEAD = """\
name: p
stages:
  model: {{use: adopt, config: {{checkpoint: {model}}}}}
  clips: {{use: decode, config: {{data: {data}, workers: 1}}}}
"""
TUNED = """\
  tuned:
    use: finetune
    inputs: {model: model, clips: clips}
    config: {recipe: {epochs: 1, batch_size: 4, accumulation: 1, workers: 0}, decoding_workers: 1}
  scores: {use: evaluate, inputs: {model: tuned, clips: clips}, config: {execution: {workers: 1}}}
"""
SCORES = """\
  scores: {use: evaluate, inputs: {model: model, clips: clips}, config: {execution: {workers: 1}}}
"""


@pytest.fixture
def data(motion_clips: Path, tmp_path: Path) -> Path:
    """A copy of the generated videos, in {train,val,test}/<class>/."""
    return Path(shutil.copytree(read_manifest(motion_clips).root, tmp_path / "data"))


@pytest.fixture
def run(
    motion_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, dict[str, str]]]:
    """`run(stages, data, *arguments)` -> exit code, and the state of every stage."""
    monkeypatch.chdir(tmp_path)

    def call(stages: str, data: Path, *arguments: str) -> tuple[int, dict[str, str]]:
        digest_of_files.cache_clear()
        digest_of_listed_videos.cache_clear()
        Path("p.yaml").write_text(HEAD.format(model=motion_model, data=data) + stages)
        code = main(["run", "p.yaml", *arguments])
        log = json.loads(Path("runs/p/run.json").read_text())
        return code, {job["stage"]: job["state"] for job in log["jobs"]}

    return call


Run = Callable[..., tuple[int, dict[str, str]]]


def summary(stage: str) -> dict[str, object]:
    """Of the newest result of a stage."""
    files = sorted(
        Path("runs").glob(f"{stage}-*/stage.json"), key=lambda file: file.stat().st_mtime
    )
    found: dict[str, object] = json.loads(files[-1].read_text())["summary"]
    return found


def test_data_that_moved_are_found_by_a_later_stage(run: Run, data: Path) -> None:
    assert run("", data)[0] == 0
    moved = data.rename(data.with_name("elsewhere"))
    code, states = run(SCORES, moved)
    assert (code, states["clips"]) == (0, "cached")
    assert summary("scores")["failed"] == 0


def test_a_runs_folder_that_moved_is_found_too(run: Run, tmp_path: Path, data: Path) -> None:
    generate = """\
  data:
    use: generate
    config: {train_videos: 1, val_videos: 0, test_videos: 2, train_images: 0, val_images: 0,
             unseen_videos: 0, motions: [left, right], size_pixels: 32}
  made: {use: decode, inputs: {data: data}, config: {workers: 1, validation: none}}
"""
    scores = SCORES.replace("clips: clips", "clips: made")
    assert run(generate, data)[0] == 0
    Path("runs").rename("other")
    Path("runs").symlink_to("nowhere")  # whatever is read from the old place is missing
    code = 0
    Path("p.yaml").write_text(Path("p.yaml").read_text() + scores)
    code = main(["run", "p.yaml", "--runs", "other"])
    assert code == 0
    (file,) = Path("other").glob("scores-*/stage.json")
    assert json.loads(file.read_text())["summary"]["failed"] == 0


def test_videos_that_are_away_fail_the_evaluation_and_it_succeeds_when_they_are_back(
    run: Run, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = sorted(str(path) for path in (data / "test").rglob("*.mp4"))
    outside = data.with_name("disk")
    (data / "test").rename(outside)
    rows = [f"{outside / Path(name).relative_to(data / 'test')},{Path(name).parent.name},test"
            for name in names]  # fmt: skip
    listed = data / "list.csv"
    listed.write_text("\n".join(["path,label,split", *rows]) + "\n")
    assert run("", listed)[0] == 0
    before = {path: path.read_bytes() for path in outside.rglob("*.mp4")}
    for path in before:  # same size, same time: only the content is gone
        status = path.stat()
        path.write_bytes(bytes(status.st_size))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    code, states = run(SCORES, listed)
    assert (code, states["clips"], states["scores"]) == (1, "cached", "failed")
    said = capsys.readouterr().err
    assert "8 of 8 videos have no scores, more than max_failed (0.05 of them)" in said
    assert not list(Path("runs").glob("scores-*/stage.json"))
    for path, content in before.items():
        status = path.stat()
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    code, states = run(SCORES, listed)
    assert (code, summary("scores")["failed"]) == (0, 0)


def test_a_longer_timeout_retries_what_was_left_out(
    run: Run, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "test/left/00000.mp4").write_bytes(b"no video")  # fails with any timeout
    code, _ = run("", data, "--set", "clips.timeout_seconds=1e-6")
    assert code == 0
    left_out = summary("clips")["left_out"]
    assert left_out > 11  # of 22; answers that arrive before the first check are accepted
    main(["plan", "p.yaml", "--set", "clips.timeout_seconds=1e-6"])
    assert "cached  clips" in (said := capsys.readouterr().out)
    assert f"{left_out} failed" in said
    main(["plan", "p.yaml"])
    assert "because timeout_seconds: 1e-06 -> 60.0" in capsys.readouterr().out
    assert run("", data) == (0, {"model": "cached", "clips": "done"})
    assert summary("clips")["left_out"] == 1
    capsys.readouterr()
    assert run("", data, "--retry-failed")[1]["clips"] == "done"
    assert "checking: 1/1 videos" in capsys.readouterr().err


def test_a_prediction_retries_only_the_videos_without_scores(
    run: Run, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "test/left/00000.mp4").write_bytes(b"no video")
    predict = f"""\
  rows:
    use: predict
    inputs: {{model: model}}
    config: {{videos: {data / "test"}, file_format: csv, execution: {{workers: 1}}}}
"""
    assert run(predict, data, "--until", "rows")[0] == 0
    assert run(predict, data)[1]["rows"] == "cached"
    said = capsys.readouterr().err
    assert "1 failed" in said
    assert "--retry-failed" in said
    assert run(predict, data, "--retry-failed")[1]["rows"] == "done"
    assert "predicting: 1/1 videos" in capsys.readouterr().err
    assert summary("rows")["statuses"] == {"error": 1, "ok": 7}


def test_a_missing_test_split_is_found_before_the_training(
    run: Run, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(data / "test")
    code, states = run(TUNED, data)
    assert (code, states["clips"], states["tuned"]) == (1, "done", "failed")
    said = capsys.readouterr().err
    assert "stage 'scores' cannot succeed" in said
    assert "there are no labelled test videos, only 8 train, 6 val" in said
    assert not list(Path("runs").glob("tuned-*"))


@pytest.mark.parametrize("protocol", ["last", "paper"])
def test_validation_videos_that_were_trained_on_are_not_scored(
    run: Run, data: Path, capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    settings = ["--set", "scores.split=val", "--set", f"tuned.protocol={protocol}"]
    code, states = run(TUNED, data, *settings)
    assert (code, states["tuned"]) == (1, "failed")
    assert f"with protocol: {protocol} stage 'tuned' trains on the" in capsys.readouterr().err


PROBED = """\
  features:
    {use: features, inputs: {model: model, clips: clips},
     config: {num_frames: 8, execution: {workers: 1}}}
  probed: {use: probe, inputs: {features: features}, config: {head: mean, protocol: last}}
  tuned:
    use: finetune
    inputs: {model: probed, clips: clips}
    config: {recipe: {epochs: 1, batch_size: 4, accumulation: 1, workers: 0}, decoding_workers: 1}
  scores: {use: evaluate, inputs: {model: MODEL, clips: clips}, config: {split: val}}
"""


def test_a_probe_and_what_continues_it_are_not_scored_on_videos_that_the_probe_learned_from(
    run: Run, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model in ("tuned", "probed"):
        code, states = run(PROBED.replace("MODEL", model), data)
        assert (code, states["features"]) == (1, "failed")
        assert "with protocol: last stage 'probed' trains on the" in capsys.readouterr().err
    without = ["--set", "features.splits=[train]", "--set", "probed.recipe.epochs=1"]
    assert main(["run", "p.yaml", *without, "--until", "scores"]) == 0


def test_a_replaced_video_of_a_list_is_noticed(run: Run, data: Path) -> None:
    listed = data.with_name("list.csv")
    rows = [f"{path},{path.parent.name}" for path in sorted(data.rglob("*.mp4"))]
    listed.write_text("\n".join(["path,label", *rows]) + "\n")
    assert run("", listed)[1]["clips"] == "done"
    assert run("", listed)[1]["clips"] == "cached"
    (data / "test/left/00000.mp4").unlink()
    shutil.copyfile(data / "test/right/00000.mp4", data / "test/left/00000.mp4")
    assert run("", listed)[1]["clips"] == "done"


def test_names_that_are_not_utf_8_run_to_the_end(
    run: Run, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"caf\xe9.mp4")
    (data / "test/left/00000.mp4").rename(data / "test/left" / name)
    code, _ = run(SCORES, data)
    assert code == 0, capsys.readouterr().err
    assert summary("scores")["failed"] == 0
    assert main(["plan", "p.yaml"]) == 0


def test_a_folder_whose_name_is_not_utf_8_can_be_given(run: Run, data: Path) -> None:
    renamed = data.rename(data.with_name(os.fsdecode(b"caf\xe9")))
    code, states = run("", data.parent, "--set", f"clips.data={renamed}")
    assert (code, states["clips"]) == (0, "done")
    resolved = Path("runs/p/pipeline.yaml")
    assert main(["run", str(resolved)]) == 0
