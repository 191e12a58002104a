"""`predict --stream`: lines per step of a pipe and of a file that grows."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.videopipe.tiny_model import save_image_network
from videopipe.cli import main
from videopipe.inflation import InflationOptions, inflate_checkpoint
from videopipe.models import load_model
from videopipe.prediction.execution.stream_run import predict_stream
from videopipe.video.frame_stream import stream_frames
from videopipe.video.writing import write_video

FRAMES, FRAME_RATE = 20, 10.0


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "grey.ts"
    levels = [np.full((32, 48, 3), 10 * step, np.uint8) for step in range(FRAMES)]
    write_video(path, levels, frame_rate=FRAME_RATE)
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal network for 5 frames per second."""
    folder = tmp_path_factory.mktemp("model")
    save_image_network(folder / "2d", 3, labels=("a", "b", "c"))
    options = InflationOptions(
        num_frames=10, clip_seconds=2.0, state=8, start="random", bidirectional=False
    )
    inflate_checkpoint(folder / "2d", folder / "causal", options)
    return folder / "causal"


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_frames_come_at_the_period(video: Path) -> None:
    with video.open("rb") as file:
        frames = list(stream_frames(file, "grey.ts", 0.2))
    assert [round(seconds, 3) for seconds, _ in frames] == [round(0.2 * i, 3) for i in range(10)]
    levels = [float(frame.float().mean()) for _, frame in frames]
    assert levels == pytest.approx([20 * i for i in range(10)], abs=3)
    assert frames[0][1].shape == (3, 32, 48)


def test_the_last_line_has_the_scores_of_the_whole_clip(
    model: Path, video: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    assert predict_stream(model, str(video), str(out), top_k=3, patience_seconds=0) == 10
    network, card = load_model(model)
    with video.open("rb") as file:
        frames = [frame for _, frame in stream_frames(file, "grey.ts", 0.2)]
    clip = card.preprocessing.resize_and_crop(torch.stack(frames)).transpose(0, 1)[None]
    with torch.no_grad():
        expected = torch.softmax(network(card.preprocessing.normalize(clip))[0], -1)
    last = read(out)[-1]
    found = dict(zip(last["labels"], last["scores"], strict=True))
    assert [found[label] for label in "abc"] == pytest.approx(expected.tolist(), abs=1e-4)
    assert last["seconds"] == 1.8


def test_a_growing_file_is_followed_to_its_end(model: Path, video: Path, tmp_path: Path) -> None:
    content, growing = video.read_bytes(), tmp_path / "growing.ts"
    growing.write_bytes(content[: len(content) // 2])

    def append() -> None:
        time.sleep(0.3)
        with growing.open("ab") as file:
            file.write(content[len(content) // 2 :])

    writer = threading.Thread(target=append)
    writer.start()
    predict_stream(model, str(growing), str(tmp_path / "grown.jsonl"), patience_seconds=2)
    writer.join()
    predict_stream(model, str(video), str(tmp_path / "whole.jsonl"), patience_seconds=0)
    assert read(tmp_path / "grown.jsonl") == read(tmp_path / "whole.jsonl")


@pytest.mark.slow
def test_a_pipe_through_the_command(model: Path, video: Path) -> None:
    command = [sys.executable, "-m", "videopipe", "predict", str(model), "-", "--stream", "-o", "-"]
    with video.open("rb") as pipe:
        done = subprocess.run(
            command, stdin=pipe, capture_output=True, check=True, env=os.environ, timeout=120
        )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 10
    assert b"10 steps written to -" in done.stderr


@pytest.mark.parametrize(
    ("out", "video_name", "message"),
    [
        ("rows.csv", "grey.ts", "a stream is written to a .jsonl file, or to -"),
        ("rows.jsonl", "text.ts", "cannot be read as a stream"),
    ],
)
def test_mistakes_are_named(
    out: str, video_name: str, message: str, model: Path, video: Path, tmp_path: Path, capsys
) -> None:
    (tmp_path / "text.ts").write_text("not a video")
    source = video if video_name == "grey.ts" else tmp_path / video_name
    arguments = ["predict", str(model), str(source), "--stream", "--out", str(tmp_path / out)]
    assert main([*arguments, "--patience-seconds", "0"]) in (1, 2)
    assert message in capsys.readouterr().err
