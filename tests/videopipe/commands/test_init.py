from pathlib import Path

import pytest

from videopipe.cli import main
from videopipe.pipeline import load_pipeline
from videopipe.stages import STAGES


def write_dataset(folder: Path, tiny_video, classes=("run", "walk & talk", "yes"), each=2) -> Path:
    for name in classes:
        for index in range(each):
            tiny_video(folder / name / f"{index}.mp4", num_frames=12, frame_rate=10)
    return folder


def test_the_pipeline_written_is_one_that_loads(tmp_path, tiny_video, capsys) -> None:
    data = write_dataset(tmp_path / "my videos #1", tiny_video)
    weights = tmp_path / "weights.pth"
    weights.write_bytes(b"")
    out = tmp_path / "mine.yaml"
    code = main(["init", str(data), "--checkpoint", str(weights), "--out", str(out)])
    assert code == 0
    assert capsys.readouterr().out.strip() == str(out)
    jobs = {job.stage: job for job in load_pipeline(out, STAGES).jobs}
    assert list(jobs) == ["backbone", "inflated", "clips", "model", "scores"]
    assert jobs["clips"].config.data == data
    assert jobs["inflated"].config.num_classes == 3
    assert jobs["inflated"].config.clip_seconds == pytest.approx(1.2)
    assert jobs["clips"].config.num_folds == 5


def test_an_existing_file_is_kept(tmp_path, tiny_video, capsys) -> None:
    data = write_dataset(tmp_path / "videos", tiny_video)
    out = tmp_path / "mine.yaml"
    out.write_text("precious")
    assert main(["init", str(data), "--out", str(out)]) == 1
    assert out.read_text() == "precious"
    assert f"{out} exists; give another --out, or --overwrite" in capsys.readouterr().err


def test_videos_without_classes_are_refused(tmp_path, tiny_video, capsys) -> None:
    tiny_video(tmp_path / "videos" / "one.mp4", num_frames=4)
    out = tmp_path / "mine.yaml"
    assert main(["init", str(tmp_path / "videos"), "--out", str(out)]) == 1
    assert "1 videos, but no classes to learn" in capsys.readouterr().err
    assert not out.exists()
