"""`videopipe bench` measures real files, reports problems, and recommends settings."""

import json
from pathlib import Path

import pytest

from videopipe.cli import main
from videopipe.commands.videos.bench import advice, decoder_table
from videopipe.scoring.benchmark.decoders import ClipSize, DecoderSpeed, fastest, measure_decoders
from videopipe.scoring.benchmark.throughput import Throughput
from videopipe.scoring.settings import Execution

CLIP = ("a.mp4", 0.0)


@pytest.mark.slow
def test_decoders_and_a_model_are_measured(
    video_folder: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--files", "2", "--rounds", "1", "--json", str(tmp_path / "numbers.json")]
    command = ["bench", str(video_folder / "part0"), "--model", str(tiny_model), *words]
    assert main([*command, "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "clips of 4 frames over 0.5 s" in printed
    assert "What to set:\n  --decoder " in printed
    assert "in a pipeline: execution: {workers: " in printed
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    reference = numbers["decoders"]["av"]
    assert reference["milliseconds"] > 0
    assert (reference["differing_frames"], reference["failures"]) == (0, [])
    assert all(row["clips_per_second"] > 0 for row in numbers["model"])


def test_a_file_that_no_decoder_reads_is_left_out_and_none_is_an_error(
    video_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(video_folder / "part0" / "empty.mp4")]) == 1
    assert "none of the files can be read as a video" in capsys.readouterr().err
    assert main(["bench", "nowhere"]) == 1
    assert "nowhere: no such file or folder" in capsys.readouterr().err
    assert main(["bench", str(video_folder), "--rounds", "0"]) == 2
    assert "--rounds is 0; expected more than 0" in capsys.readouterr().err


@pytest.mark.slow
def test_wrong_frames_are_counted(video_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from videopipe.scoring.benchmark import decoders

    monkeypatch.setattr(decoders, "GREY_TOLERANCE", -1.0)  # every frame is too far off
    size = ClipSize(num_frames=4, clip_seconds=0.5, rounds=1, repeats=1)
    speeds = measure_decoders([video_folder / "part0" / "video00.mp4"], size)
    others = [speed for speed in speeds if speed.clip_seconds and speed.backend != "av"]
    assert all(speed.differing_frames == 4 for speed in others)
    best = fastest(speeds)
    assert best is not None
    assert best.backend == "av", "the reference is the only one that agrees with itself"


def test_the_fastest_that_is_right_is_recommended() -> None:
    speeds = [
        DecoderSpeed("av", {CLIP: 0.010}),
        DecoderSpeed("torchcodec", {CLIP: 0.005}),
        DecoderSpeed("decord", {CLIP: 0.001}, differing_frames=1),
        DecoderSpeed("pytorchvideo", {}, failures=["a.mp4: not installed"]),
    ]
    assert fastest(speeds) is speeds[1]
    table = decoder_table(speeds)
    assert table[2].split() == ["torchcodec", "5.0", "0.50", "0", "0"]
    assert table[4].endswith("does not work: not installed")
    slow = Throughput(Execution(workers=1, threads=1), 1.0, 0.9, 0.0)
    quick = Throughput(Execution(workers=2, threads=1), 3.0, 0.1, 0.8)
    said = advice(speeds[1], [slow, quick])
    assert said[0].startswith("--decoder torchcodec ")
    assert (
        said[1] == "--workers 2 --threads 1    in a pipeline: execution: {workers: 2, threads: 1}"
    )
    assert said[2].startswith("the model limits the speed")
    assert advice(speeds[1], [slow])[2].startswith("decoding limits the speed")
    assert advice(None, [])[0].startswith("leave decoder: auto")
