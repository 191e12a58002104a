"""`videopipe check`, by its arguments and its exit codes."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from videopipe.cli import main


def test_problems_are_printed_and_written(tmp_path: Path, tiny_video: Callable, capsys) -> None:
    data = tmp_path / "data"
    tiny_video(data / "run/a.mp4", num_frames=45)
    tiny_video(data / "walk/b.mp4", num_frames=46)
    options = ["--full", "--validation", "none", "-j", "1"]
    index = tmp_path / "index"
    assert main(["check", str(data), "--out", str(index), *options]) == 0
    said = capsys.readouterr().out
    assert "found:   class folders without splits" in said
    assert "splits:  train 2" in said
    assert "all videos can be used" in said
    assert sorted(path.name for path in index.iterdir()) == ["dataset.json", "manifest.jsonl"]

    (data / "walk/c.mp4").write_bytes(b"")
    table = tmp_path / "table.csv"
    assert main(["check", str(index), "--table", str(table), *options]) == 1
    said = capsys.readouterr()
    assert "empty: 1 (the file has no bytes; left out)" in said.out
    assert "1 of 3 videos cannot be used" in said.out
    assert "1/1" in said.err  # only the new file was inspected
    with table.open(newline="") as file:
        rows = {Path(row["path"]).name: row for row in csv.DictReader(file)}
    assert rows["c.mp4"]["findings"] == "empty"
    assert (rows["a.mp4"]["label"], rows["a.mp4"]["num_frames"]) == ("run", "45")

    lines = tmp_path / "table.jsonl"
    assert main(["check", str(index), "--table", str(lines), *options]) == 1
    assert len([json.loads(line) for line in lines.read_text().splitlines()]) == 3


def test_clips_in_the_notation_of_mmaction(tmp_path: Path, tiny_video: Callable, capsys) -> None:
    tiny_video(tmp_path / "run/short.mp4", num_frames=30, frame_rate=15.0)
    tiny_video(tmp_path / "walk/long.mp4", num_frames=40, frame_rate=15.0)
    assert main(["check", str(tmp_path), "--clip", "16x2x1", "-j", "1"]) == 0
    said = capsys.readouterr().out
    assert "too short: 1" in said
    assert "a clip is 16 frames over 2.133 s (16x2x1 at 15 fps)" in said
    assert "num_frames: 16, clip_seconds: 2.133" in said
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path), "--clip", "16-2"])
    assert "for example 32x2x1" in capsys.readouterr().err


def test_mistakes(tmp_path: Path, capsys) -> None:
    assert main(["check", str(tmp_path / "nowhere")]) == 1
    assert "no such file or folder" in capsys.readouterr().err
    assert main(["check", str(tmp_path), "--table", "x.xls"]) == 1
    assert "expected a name ending in .csv or .jsonl" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["check", str(tmp_path), "--layout", "imagenet"])
    assert "invalid choice: 'imagenet'" in capsys.readouterr().err
