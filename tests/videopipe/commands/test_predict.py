import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrained_2d.backbones import build
from pretrained_2d.card import ModelCard, Preprocessing
from pretrained_2d.checkpoint import save_checkpoint
from videopipe.cli import main
from videopipe.data.writing import write_video


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    torch.manual_seed(0)
    options = {"num_classes": 3, "depths": (1, 1, 1, 1), "widths": (8, 8, 8, 8), "image_size": 32}
    network = build("convnext_tiny", ndim=3, num_frames=4, layer_scale=1.0, **options)
    with torch.no_grad():
        network.head.weight.normal_()
    card = ModelCard(
        architecture="convnext_tiny",
        options={"num_frames": 4, "layer_scale": 1.0, **options},
        ndim=3,
        labels=("run", "jump", "sit"),
        preprocessing=Preprocessing(image_size=32, resize=32),
        num_frames=4,
        clip_seconds=0.4,
    )
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_checkpoint(folder, network, card)
    return str(folder)


def write(path: Path, seed: int, num_frames: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = np.random.default_rng(seed).integers(0, 256, (num_frames, 4, 4, 3), dtype=np.uint8)
    write_video(path, pictures.repeat(8, 1).repeat(8, 2), frame_rate=10.0)
    return path


@pytest.fixture(scope="module")
def videos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    for number in range(6):
        write(folder / f"{number} (a copy).mp4", number, 10 + 20 * (number == 2))
    return folder


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


QUICK = ["--device", "cpu", "--workers", "1", "--threads", "1"]


def test_a_folder_becomes_a_table(model, videos, tmp_path, capsys):
    out = tmp_path / "out.csv"
    code = main(["predict", model, str(videos), "--out", str(out), "--top-k", "2", *QUICK])
    assert code == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}\n"
    assert "6 videos, 6 rows (6 ok)" in printed.err
    rows = read(out)
    assert len(rows) == 6
    assert {row["label_1"] for row in rows} <= {"run", "jump", "sit"}
    assert 0 < float(rows[0]["probability_2"]) <= float(rows[0]["probability_1"]) <= 1
    assert main(["predict", model, str(videos), "--out", str(out), "--top-k", "2", *QUICK]) == 0
    assert "is complete: nothing is left to do" in capsys.readouterr().err


def test_strict_turns_a_bad_video_into_exit_1(model, videos, tmp_path, capsys):
    (tmp_path / "bad.mp4").write_bytes(b"nothing")
    paths = [str(videos / "0 (a copy).mp4"), str(tmp_path / "bad.mp4")]
    arguments = ["predict", model, *paths, "--out", str(tmp_path / "out.jsonl"), *QUICK]
    assert main(arguments) == 0
    assert "1 error, 1 ok" in capsys.readouterr().err
    assert main([*arguments, "--strict"]) == 1
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["ok", "error"]


def test_windows_and_embeddings(model, videos, tmp_path):
    out = tmp_path / "out.jsonl"
    path = str(videos / "2 (a copy).mp4")
    options = ["--windows", "--stride", "0.2", "--embeddings", "--scores"]
    assert main(["predict", model, path, "--out", str(out), *options, *QUICK]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [round(row["start_seconds"], 6) for row in rows] == [n / 5 for n in range(14)]
    assert len(rows[0]["embedding"]) == 8
    assert len(rows[0]["scores"]) == 3


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--out", "x.xlsx"], 2, "expected a name ending in .parquet, .csv, .jsonl"),
        (["--out", "x.csv", "--stride", "2"], 2, "stride_seconds is for windows"),
        (["--out", "x.csv", "--windows", "--clips", "2"], 2, "clips is for whole videos"),
        (["--out", "x.csv", "--top-k", "0"], 2, "top_k is 0; expected 1 or more"),
        (["--out", "x.csv", "--workers", "0"], 2, "workers is 0; expected 1 or more"),
    ],
)
def test_bad_settings_are_told_before_any_work(
    model, videos, tmp_path, capsys, monkeypatch, options, code, message
):
    monkeypatch.chdir(tmp_path)
    assert main(["predict", model, str(videos), *options]) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_none_and_paths_that_are_none(model, videos, tmp_path, capsys):
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(tmp_path), str(videos), "--out", out]) == 1
    assert "is not a checkpoint folder" in capsys.readouterr().err
    assert main(["predict", model, str(tmp_path), "--out", out]) == 1
    assert "no videos found" in capsys.readouterr().err


def command(model: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "videopipe", "predict", model, *arguments, *QUICK]


ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_the_command_goes_on_after_any_signal(model, tmp_path, end):
    folder, out = tmp_path / "videos", tmp_path / "out.csv"
    for number in range(30):
        write(folder / f"{number:02}.mp4", number, 30)
    arguments = command(model, str(folder), "--out", str(out))
    process = subprocess.Popen(arguments, env=ENVIRONMENT, stderr=subprocess.PIPE)
    parts = tmp_path / "out.csv.parts"
    while process.poll() is None and not any(j.stat().st_size for j in parts.glob("*.journal")):
        time.sleep(0.01)
    process.send_signal(end)
    code = process.wait(60)
    process.stderr.close()
    assert code == {signal.SIGINT: 130, signal.SIGTERM: 143}[end]
    (journal,) = parts.glob("*.journal")
    finished = journal.read_bytes().count(b"\n")
    assert 0 < finished < 30
    subprocess.run(arguments, env=ENVIRONMENT, check=True, capture_output=True)
    assert len(read(out)) == 30
    summary = json.loads((tmp_path / "out.csv.summary.json").read_text())
    assert summary["predicted_in_this_run"] == 30 - finished


def launch(processes: int, model: str, *arguments: str) -> list[str]:
    """`--multi_gpu` is what makes accelerate start several processes; these run on the CPU."""
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    launcher += ["--num_machines", "1", "--num_processes", str(processes)]
    launcher += ["--mixed_precision", "no", "--dynamo_backend", "no"]
    port = str(20000 + os.getpid() % 20000)
    return [*launcher, "--main_process_port", port, *command(model, *arguments)[1:]]


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(number) for number in found]


@pytest.mark.slow
def test_several_processes_share_the_work_and_one_may_be_killed(model, tmp_path):
    folder = tmp_path / "videos"
    for number in range(60):
        write(folder / f"{number:02}.mp4", number, 300 if number == 5 else 15)
    one, two, three = (tmp_path / f"{name}.csv" for name in ("one", "two", "three"))
    assert main(["predict", model, str(folder), "--out", str(one), *QUICK]) == 0
    subprocess.run(launch(2, model, str(folder), "--out", str(two)), env=ENVIRONMENT, check=True)
    assert two.read_bytes() == one.read_bytes()
    summary = json.loads((tmp_path / "two.csv.summary.json").read_text())
    assert (summary["processes"], summary["predicted_in_this_run"]) == (2, 60)

    arguments = launch(3, model, str(folder), "--out", str(three))
    launcher = subprocess.Popen(arguments, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    parts = tmp_path / "three.csv.parts"
    while launcher.poll() is None and len(list(parts.glob("*.journal"))) < 2:
        time.sleep(0.01)
    os.kill(children(launcher.pid)[-1], signal.SIGKILL)
    assert launcher.wait(120) != 0
    assert not three.exists()
    assert any(file.stat().st_size for file in parts.glob("*.journal")) or any(parts.glob("part-*"))
    subprocess.run(arguments, env=ENVIRONMENT, check=True)
    assert three.read_bytes() == one.read_bytes()
    names = {path.name for path in tmp_path.iterdir()}
    assert not {name for name in names if name.endswith((".team", ".parts", ".lock"))}
