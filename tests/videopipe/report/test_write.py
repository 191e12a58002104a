import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pretrained_2d.checkpoints.card import ModelCard
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from pretrained_2d.training.outputs.metrics_log import MetricsLog
from tests.browser import opening_seconds
from videopipe.cli import main
from videopipe.evaluation.score_table import ScoreTable, measure, write_evaluation
from videopipe.report.sections.evaluation import most_confused
from videopipe.report.write import write_report


def entry(stage: str, use: str, state: str, inputs=None, **variant) -> dict:
    folder = "-".join([stage, *map(str, variant.values()), "0123456789ab"])
    return {
        "stage": stage, "use": use, "variant": variant, "folder": folder,
        "inputs": inputs or {}, "state": state, "seconds": 1.5,
    }  # fmt: skip


def make_run(runs: Path, jobs: list[dict], state: str = "complete") -> Path:
    for job in jobs:
        if job["state"] == "done":
            folder = runs / job["folder"]
            folder.mkdir(parents=True)
            (folder / "stage.json").write_text(json.dumps({"summary": {"top1": 0.5}, "seconds": 2}))
    record = {
        "name": "p", "state": state, "command": "videopipe run <p>", "started": 0.0,
        "seconds": 3.0, "environment": {"python": "3.11"}, "jobs": jobs,
    }  # fmt: skip
    (runs / "p").mkdir(parents=True)
    (runs / "p" / "run.json").write_text(json.dumps(record))
    return runs / "p"


def make_scores(folder: Path, videos: list[Path], classes: int) -> None:
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(classes), len(videos)).astype(np.float32)
    table = ScoreTable(
        labels=tuple(f"class <{index}>" for index in range(classes)),
        paths=tuple(map(str, videos)),
        targets=np.arange(len(videos)) % classes,
        clips=np.ones(len(videos), dtype=np.int64),
        scores=scores,
        reasons=("",) * len(videos),
    )
    write_evaluation(folder, table, measure(table))


def make_curves(folder: Path, steps: int) -> None:
    log = MetricsLog(folder / "metrics.jsonl")
    for step in range(1, steps + 1):
        log.append(
            {"kind": "train", "step": step, "loss": 1 / step, "accuracy": 0.5, "lr": 1e-3,
             "gradient_norm": 1.0, "step_seconds": 0.1, "data_seconds": 0.01}
        )  # fmt: skip
        log.append({"kind": "evaluation", "step": step, "accuracy": 0.4 + step / 200})


def test_a_run_is_shown_with_its_videos_and_curves(tmp_path, tiny_video) -> None:
    jobs = [entry("model", "finetune", "done"), entry("scores", "evaluate", "done")]
    run = make_run(tmp_path, jobs)
    videos = [tiny_video(tmp_path / f"video {index} <b>.mp4", num_frames=8) for index in range(4)]
    make_scores(tmp_path / jobs[1]["folder"], videos, classes=3)
    make_curves(tmp_path / jobs[0]["folder"], steps=5)
    page = write_report(run)
    text = page.read_text()
    assert "Training loss" in text
    assert "Confusion" in text
    assert text.count("data:image/jpeg;base64") == 4
    assert "video 0 &lt;b&gt;.mp4" in text
    assert "<b>" not in text
    assert (page.parent / "pictures" / "evaluation-scores-confusion.svg").is_file()
    numbers = json.loads((page.parent / "report.json").read_text())
    assert [job["summary"] for job in numbers["jobs"]] == [{"top1": 0.5}] * 2


def test_missing_or_damaged_parts_are_reported_and_the_rest_is_shown(tmp_path, tiny_video) -> None:
    jobs = [
        entry("clips", "decode", "done"),
        entry("model", "finetune", "failed"),
        entry("early", "evaluate", "done"),
        entry("scores", "evaluate", "waiting"),
    ]
    run = make_run(tmp_path, jobs, state="failed")
    video = tiny_video(tmp_path / "video.mp4", num_frames=8)
    make_scores(tmp_path / jobs[2]["folder"], [video], classes=2)
    (tmp_path / jobs[2]["folder"] / "scores.parquet").write_bytes(b"damaged")
    text = write_report(run).read_text()
    assert "model has no result: failed" in text
    assert "scores has no result: waiting" in text
    assert "model: no metrics were written yet" in text
    assert "early-0123456789ab cannot be read (DataError" in text
    assert "clips-0123456789ab cannot be read" in text
    assert "Overview" in text


def test_curves_of_several_runs_are_overlaid(tmp_path, capsys) -> None:
    """Also two of the same name, with a stage that only one of them has."""
    folders = []
    for place, stages in (("a", ["model"]), ("b", ["model", "extra"])):
        jobs = [entry(stage, "finetune", "done") for stage in stages]
        jobs.append(entry("scores", "evaluate", "done"))
        folders.append(make_run(tmp_path / place, jobs))
        for job in jobs[:-1]:
            make_curves(tmp_path / place / job["folder"], steps=4)
    out = tmp_path / "page"
    (out / "pictures").mkdir(parents=True)
    (out / "pictures" / "of-an-older-run.svg").touch()
    assert main(["report", *map(str, folders), "--out", str(out)]) == 0
    text = (out / "report.html").read_text()
    assert "Runs side by side" in text
    loss = (out / "pictures" / "training-model-loss.svg").read_text()
    assert "model" in loss
    assert f"{folders[1]}: model" in loss
    assert "Fine-tuning: extra" in text
    assert not (out / "pictures" / "of-an-older-run.svg").exists()
    assert (out / "pictures" / "training-model-loss.png").read_bytes()[1:4] == b"PNG"
    numbers = json.loads((out / "report.json").read_text())
    assert list(numbers["beside"]) == [str(folders[1])]
    results = next(part for part in numbers["tables"] if part["section"] == "Runs side by side")
    assert [row[0] for row in results["tables"][0]["rows"]] == ["p", str(folders[1])]


@pytest.mark.slow
def test_a_large_run_stays_below_fifteen_megabytes(tmp_path, tiny_video, record_property) -> None:
    """51 classes, 50 epochs, 8 variants of an S4ND network; the time to open it is printed."""
    options = {"num_classes": 51, "ndim": 3, "mixer": "s4nd", "num_frames": 8, "image_size": 64}
    network = build("convnext_micro", **options)
    card = ModelCard(architecture="convnext_micro", options=options, ndim=3, clip_seconds=2.0)
    trained = [entry("model", "finetune", "done", length=n) for n in range(8)]
    scored = [entry("scores", "evaluate", "done", length=n) for n in range(8)]
    run = make_run(tmp_path, trained + scored)
    videos = [tiny_video(tmp_path / f"{index}.mp4", num_frames=8) for index in range(12)] * 85
    for model, scores in zip(trained, scored, strict=True):
        make_curves(tmp_path / model["folder"], steps=50)
        make_scores(tmp_path / scores["folder"], videos, classes=51)
    for model in trained[:2]:  # drawing the kernels of all eight would take minutes
        save_checkpoint(tmp_path / model["folder"], network, card)
    page = write_report(run)
    assert page.stat().st_size < 15e6
    assert page.read_text().count("Kernels along time") >= 2
    record_property("seconds to open", opening_seconds(page, tmp_path))


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert f"Error: {tmp_path}: no readable run.json" in capsys.readouterr().err


MEMORY = """
import resource, sys
from pathlib import Path
from videopipe.report.write import write_report
if __name__ == "__main__":
    peaks = []
    for run in sys.argv[1:]:
        write_report(Path(run))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    print(*peaks)
"""


def test_a_thousand_classes_take_the_pictures_and_memory_of_few(tmp_path: Path) -> None:
    runs = []
    for classes in (60, 1000):
        runs.append(make_run(tmp_path / str(classes), [entry("scores", "evaluate", "done")]))
        videos = [Path(f"/nowhere/{index}.mp4") for index in range(2000)]
        make_scores(tmp_path / str(classes) / "scores-0123456789ab", videos, classes)
    program = tmp_path / "program.py"
    program.write_text(MEMORY)
    done = subprocess.run(
        [sys.executable, program, *runs], check=True, capture_output=True, text=True
    )
    few, many = map(int, done.stdout.split())
    assert many - few < 200 * 2**20
    pages = [(run / "report" / "report.html").stat().st_size for run in runs]
    assert pages[1] < 1.5 * pages[0] < 1_000_000
    sizes = [
        [Image.open(path).size for path in sorted((run / "report/pictures").glob("*.png"))]
        for run in runs
    ]
    assert len(sizes[0]) == len(sizes[1]) >= 4
    assert max(side for size in sizes[1] for side in size) < 1600


def test_most_confused_classes_are_kept_and_the_others_summed() -> None:
    random = np.random.default_rng(0)
    counts = random.integers(0, 2, (80, 80))
    counts[7, 70] = 500
    found, labels, title = most_confused(counts, [f"class {index}" for index in range(80)])
    assert found.shape == (31, 31)
    assert found.sum() == counts.sum()
    assert labels[-1] == "50 other classes"
    assert title == "Confusion of the 30 most confused of 80 classes"
    assert found[labels.index("class 7"), labels.index("class 70")] == 500
    same, _, _ = most_confused(counts[:20, :20], labels[:20])
    assert np.array_equal(same, counts[:20, :20])
