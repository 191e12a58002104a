"""The template for probing one's own videos: it validates, and runs unchanged at a tiny scale."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.processes import ACCELERATE
from tests.processes import run as run_to_end
from tests.videopipe.tiny_model import save_image_network
from videopipe.cli import main
from videopipe.evaluation.score_table import read_scores
from videopipe.models import load_model
from videopipe.probing.feature_file import read_features
from videopipe.video.writing import write_video

PIPELINE = Path(__file__).parents[2] / "pipelines" / "probe.yaml"
TINY = (
    "backbone.architecture=timm/test_resnet", "backbone.image_size=32", "clips.workers=1",
    "clips.val_fraction=0.3", "features.num_frames=4", "features.clip_seconds=0.5",
    "features.execution.workers=1", "probe.width=8", "probe.state=8", "probe.recipe.epochs=2",
    "probe.matrix.recipe.seed=[0, 1]", "scores.execution.workers=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grey levels that rise or fall: one class has the frames of the other in reverse."""
    root = tmp_path_factory.mktemp("videos")
    for split, count in (("train", 6), ("test", 3)):
        for number in range(count):
            levels = [20 + 10 * number + 5 * index for index in range(12)]
            for label, ordered in (("rise", levels), ("fall", levels[::-1])):
                path = root / split / label / f"{number}.mp4"
                path.parent.mkdir(parents=True, exist_ok=True)
                frames = (np.full((36, 48, 3), level, dtype=np.uint8) for level in ordered)
                write_video(path, frames, frame_rate=12.0)
    return root


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backbone") / "model"
    return save_image_network(folder, 4) / "model.safetensors"


@pytest.fixture
def variables(videos: Path, weights: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The variables that the pipeline reads: set here, and as words for `env`."""
    monkeypatch.setenv("VIDEOS", str(videos))
    monkeypatch.setenv("WEIGHTS", str(weights))
    return [f"VIDEOS={videos}", f"WEIGHTS={weights}"]


def test_it_validates_and_says_what_it_shows() -> None:
    assert main(["validate", "--without-data", str(PIPELINE)]) == 0
    text = PIPELINE.read_text()
    head = ("# Shows:", "# Run:", "# Hardware:", "# Time:", "# Expected:")
    assert [line for line in head if line not in text] == []


@pytest.mark.slow
def test_it_runs_unchanged_at_a_tiny_scale(
    videos: Path, variables: list[str], tmp_path: Path
) -> None:
    changes = [f"--set={change}" for change in TINY]
    command = ["run", str(PIPELINE), "--runs", str(tmp_path), *changes]
    assert main(command) == 0
    (features,), probes, scores, (table,) = (
        sorted(tmp_path.glob(f"{stage}-*")) for stage in ("features", "probe", "scores", "table")
    )
    assert len(probes) == len(scores) == 8  # four heads, two seeds, one pass over the videos
    assert len(read_features(features).manifest.records) == 12
    rows = json.loads((table / "table.json").read_text())["rows"]
    heads = ["mean", "attentive", "conv", "s4nd"]
    assert [row["name"] for row in rows] == [f"head={head}" for head in heads]
    assert {(row["repeats"], row["protocol"]) for row in rows} == {(2, "validation")}
    assert all(row["seconds_per_step"] > 0 for row in rows)

    _, card = load_model(probes[0])
    out = tmp_path / "predictions.csv"
    words = ["--device", "cpu", "--workers", "1"]
    assert main(["predict", str(probes[0]), str(videos / "test"), "--out", str(out), *words]) == 0
    with out.open() as file:
        predicted = list(csv.DictReader(file))
    assert [row["status"] for row in predicted] == ["ok"] * 6
    assert {row["label_1"] for row in predicted} <= set(card.labels or ())

    assert "Probing: probe" in (tmp_path / "probe" / "report" / "report.html").read_text()
    assert main(command) == 0
    assert len(list(tmp_path.glob("probe-*"))) == 8


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(variables: list[str], tmp_path: Path) -> None:
    quick = ("probe.matrix.recipe.seed=[0]", "probe.matrix.head=[mean, s4nd]")
    words = ["run", str(PIPELINE), *[f"--set={change}" for change in (*TINY, *quick)], "--runs"]
    assert main([*words, str(tmp_path / "one")]) == 0
    run_to_end(["env", *variables, *ACCELERATE, "-m", "videopipe", *words, str(tmp_path / "two")])
    one, two = (sorted((tmp_path / name).glob("scores-*")) for name in ("one", "two"))
    assert [folder.name for folder in one] == [folder.name for folder in two]
    assert len(one) == 2
    for first, second in zip(one, two, strict=True):
        tables = [read_scores(folder) for folder in (first, second)]
        assert tables[0].paths == tables[1].paths
        # The weights differ by rounding, which Adam turns into steps of the learning rate.
        np.testing.assert_allclose(tables[0].scores, tables[1].scores, atol=0.05)
    assert list((tmp_path / "two").glob("table-*"))
