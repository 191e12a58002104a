import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from tests.processes import ACCELERATE, ENVIRONMENT, LONGEST_SECONDS, run, start_paused
from videopipe.cli import main
from videopipe.video.writing import write_video


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
        (["--out", "x.csv", "--stride-seconds", "2"], 2, "--stride-seconds is for windows; add"),
        (["--out", "x.csv", "--frame-rate", "0"], 2, "--frame-rate is 0.0; expected frames per"),
        (["--out", "x.csv", "--windows", "--clips", "2"], 2, "clips is for whole videos"),
        (["--out", "x.csv", "--top-k", "0"], 2, "--top-k is 0; expected 1 or more"),
        (["--out", "x.csv", "--workers", "0"], 2, "--workers is 0; expected 1 or more"),
        (["--out", "x.csv", "--on", "0.4"], 2, "--on: for timelines only; add --timeline"),
        (["--out", "x.csv", "--patience-seconds", "1"], 2, "works with --stream only"),
        (["--out", "x.csv", "--clip-seconds", "0"], 2, "--clip-seconds is 0.0; expected more"),
        (["--out", "x.csv", "--device", "gpu"], 2, "device is 'gpu'; expected auto, cpu, cuda"),
        (["--out", "x.csv", "--device", "meta"], 1, "device 'meta' does not work here"),
        (["--out", "x.csv", "--decoder", "decord"], 1, "Install its library or use the decoder"),
    ],
)
def test_bad_settings_are_errors_before_any_work(
    model, videos, tmp_path, capsys, monkeypatch, options, code, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "decord", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "videopipe.video.backends.decord_reader", raising=False)
    monkeypatch.setattr("videopipe.video.video._unavailable", {})
    assert main(["predict", model, str(videos), *options]) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    torch.cuda.is_available(),
    reason="there is a GPU; to run this test: CUDA_VISIBLE_DEVICES= pytest",
)
def test_a_device_without_a_driver_is_explained(model, videos, tmp_path, capsys):
    out = str(tmp_path / "out.csv")
    assert main(["predict", model, str(videos), "--out", out, "--device", "cuda"]) == 1
    assert "device 'cuda' does not work here" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--decoder", "--precision", "--average", "--engine"])
def test_an_unknown_name_is_refused_with_the_choices(model, videos, tmp_path, capsys, option):
    with pytest.raises(SystemExit) as ended:
        main(["predict", model, str(videos), "--out", str(tmp_path / "o.csv"), option, "nope"])
    assert ended.value.code == 2
    assert re.search(r"invalid choice: 'nope' \(choose from '", capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


def test_no_video_scored_is_exit_1(model, tmp_path, capsys):
    (tmp_path / "broken.mp4").write_text("no film")
    out = tmp_path / "out.csv"
    assert main(["predict", model, str(tmp_path), "--out", str(out), *QUICK]) == 1
    assert "no video could be scored; see the column 'error'" in capsys.readouterr().err
    assert [row["status"] for row in read(out)] == ["error"]
    write(tmp_path / "good.mp4", 1)
    assert main(["predict", model, str(tmp_path), "--out", str(out), *QUICK]) == 0


def test_old_names_of_options_warn_and_work(model, videos, tmp_path, capsys):
    new = ["--stride-seconds", "0.25", "--timeout-seconds", "30"]
    old = ["--stride", "0.25", "--timeout", "30"]
    for name, options in (("new", new), ("old", old)):
        out = str(tmp_path / f"{name}.csv")
        assert main(["predict", model, str(videos), "-o", out, "--windows", *options, *QUICK]) == 0
    assert read(tmp_path / "new.csv") == read(tmp_path / "old.csv")
    assert "warning: --stride is now called --stride-seconds" in capsys.readouterr().err


def test_clips_have_the_frames_and_seconds_that_are_asked_for(model, videos, tmp_path):
    out, options = tmp_path / "out.csv", ["--clip-seconds", "0.25", "--num-frames", "2"]
    assert main(["predict", model, str(videos), "-o", str(out), "--windows", *options, *QUICK]) == 0
    first = next(row for row in read(out) if row["status"] == "ok")
    assert float(first["end_seconds"]) - float(first["start_seconds"]) == pytest.approx(0.25)


def test_a_missing_model_and_missing_paths(model, videos, tmp_path, capsys):
    out = str(tmp_path / "out.csv")
    assert main(["predict", str(tmp_path), str(videos), "--out", out]) == 1
    assert "is not a checkpoint folder" in capsys.readouterr().err
    assert main(["predict", model, str(tmp_path), "--out", out]) == 1
    assert "no videos found" in capsys.readouterr().err


def words(model: str, *arguments: str) -> list[str]:
    return ["predict", model, *arguments, *QUICK]


ROW_WRITTEN = "videopipe.prediction.table.parts:PartWriter.add"


@pytest.mark.slow
@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_command_resumes_after_a_signal(model, videos, tmp_path, end, code):
    out = tmp_path / "out.csv"
    arguments = words(model, str(videos), "--out", str(out))
    process = start_paused(ROW_WRITTEN, 2, arguments)
    process.send_signal(end)
    process.communicate(timeout=LONGEST_SECONDS)
    assert process.returncode == code
    (journal,) = (tmp_path / "out.csv.parts").glob("*.journal")
    assert journal.read_bytes().count(b"\n") == 2
    assert main(arguments) == 0
    assert len(read(out)) == 6
    summary = json.loads((tmp_path / "out.csv.summary.json").read_text())
    assert summary["predicted_in_this_run"] == 4


def test_rows_appear_before_the_list_of_videos_ends(model, videos, tmp_path):
    """Paths on standard input; the last one is written after the first row has appeared."""
    out = tmp_path / "out.csv"
    started = [sys.executable, "-m", "videopipe", *words(model, "-", "--out", str(out))]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(started, env=ENVIRONMENT, **pipes) as process:
        paths = [os.fsencode(path) + b"\n" for path in sorted(videos.iterdir())]
        process.stdin.write(b"".join(paths[:-1]))
        process.stdin.flush()
        while not any(journal.read_bytes() for journal in tmp_path.rglob("*.journal")):
            assert process.poll() is None
            time.sleep(0.05)
        process.stdin.write(paths[-1])
        process.stdin.close()
        assert process.wait() == 0
    assert [row["status"] for row in read(out)] == ["ok"] * 6


def test_a_mistake_late_in_a_list_stops_the_run_and_what_is_done_is_kept(
    model, videos, tmp_path, capsys
):
    rows = [f"{path},," for path in sorted(videos.iterdir())]
    table, out = tmp_path / "list.csv", str(tmp_path / "out.csv")
    table.write_text("path,start,end\n" + "\n".join(rows) + "\nx.mp4,5,2\n")
    assert main(["predict", model, str(table), "--out", out, *QUICK]) == 1
    assert "list.csv:8: 5.0 to 2.0 seconds is not a range" in capsys.readouterr().err
    table.write_text("path,start,end\n" + "\n".join(rows))
    assert main(["predict", model, str(table), "--out", out, *QUICK]) == 0
    assert len(read(Path(out))) == 6


@pytest.mark.slow
def test_several_processes_share_the_work_and_one_may_be_killed(model, tmp_path):
    folder = tmp_path / "videos"
    for number in range(16):
        write(folder / f"{number:02}.mp4", number, 100 if number == 5 else 15)
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    assert main(words(model, str(folder), "--out", str(one))) == 0

    arguments = words(model, str(folder), "--out", str(two))
    launcher = start_paused(ROW_WRITTEN, 1, arguments, ACCELERATE)
    worker = psutil.Process(launcher.pid).children()[-1]
    worker.kill()
    launcher.communicate(timeout=LONGEST_SECONDS)
    assert launcher.returncode != 0
    assert not two.exists()
    journals = list((tmp_path / "two.csv.parts").glob("*.journal"))
    assert sum(len(journal.read_bytes().splitlines()) for journal in journals) in (1, 2)

    run([*ACCELERATE, "-m", "videopipe", *arguments])
    assert two.read_bytes() == one.read_bytes()
    summary = json.loads((tmp_path / "two.csv.summary.json").read_text())
    assert summary["processes"] == 2
    assert summary["predicted_in_this_run"] in (14, 15)
    names = {path.name for path in tmp_path.iterdir()}
    assert not {name for name in names if name.endswith((".team", ".parts", ".lock"))}
