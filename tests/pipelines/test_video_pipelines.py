"""Every video pipeline validates, says what it reproduces, and runs unchanged at a tiny scale."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrained_2d.backbones import build
from pretrained_2d.card import ModelCard, Preprocessing
from pretrained_2d.checkpoint import save_checkpoint
from videopipe.cli import main
from videopipe.data.writing import write_video
from videopipe.pipeline import load_pipeline
from videopipe.runner import run_jobs
from videopipe.stages import STAGES

PIPELINES = Path(__file__).parents[2] / "pipelines"
NAMES = sorted(
    path.name for path in PIPELINES.glob("*.yaml") if path.name.startswith(("hmdb51_", "weizmann"))
)
CLASSES = ("brush_hair", "cartwheel")
SMALL_CONVNEXT = {"depths": (1, 1, 1, 1), "widths": (8, 8, 8, 8)}


def test_all_of_them_are_there():
    wanted = ["delta", "i3d", "inception_i3d", "randaugment", "s3d", "s4nd", "table"]
    assert [*(f"hmdb51_{name}.yaml" for name in wanted), "weizmann.yaml"] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_validates_and_says_what_it_reproduces(name):
    assert main(["validate", "--without-data", str(PIPELINES / name)]) == 0
    text = (PIPELINES / name).read_text()
    first = "# Shows:" if name.startswith("weizmann") else "# Reproduces:"
    head = (first, "# Run:", "# Hardware:", "# Time:", "# Expected:")
    assert [line for line in head if line not in text] == []
    assert text.split("name: ")[1].split()[0] == Path(name).stem


def write_clip(path, number):
    """A second of a grey level that rises or falls."""
    path.parent.mkdir(parents=True, exist_ok=True)
    levels = (20 + 10 * number + 5 * index for index in range(12))
    frames = (np.full((36, 48, 3), level, dtype=np.uint8) for level in levels)
    write_video(path, frames, frame_rate=12.0)


@pytest.fixture(scope="module")
def hmdb51(tmp_path_factory):
    """HMDB-51 as it lies on disk, with two classes of eight short videos."""
    root = tmp_path_factory.mktemp("hmdb51")
    splits = root / "testTrainMulti_7030_splits"
    splits.mkdir()
    for label in CLASSES:
        names = [f"film{i}_{label}_u_cm_np1_fr_goo_{i}.avi" for i in range(8)]
        for number, name in enumerate(names):
            write_clip(root / "videos" / label / name, number)
        for split in (1, 2, 3):
            marks = [2 if number % 3 == split - 1 else 1 for number in range(8)]
            lines = [f"{name} {mark} " for name, mark in zip(names, marks, strict=True)]
            (splits / f"{label}_test_split{split}.txt").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="module")
def weizmann(tmp_path_factory):
    root = tmp_path_factory.mktemp("weizmann")
    for number, person in enumerate(("daria", "eli", "ido")):
        for label in ("bend", "run"):
            write_clip(root / label / f"{person}_{label}.avi", number)
    return root


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    """Untrained networks as files, for the environment variables of the pipelines."""
    folder = tmp_path_factory.mktemp("backbones")
    networks = {
        "CONVNEXT": ("convnext_tiny", SMALL_CONVNEXT | {"image_size": 32}),
        "S4ND_CONVNEXT": ("convnext_tiny", SMALL_CONVNEXT | {"image_size": 32, "mixer": "s4nd"}),
        "INCEPTION": ("inception", {}),
        "WEIGHTS": ("timm/test_resnet", {}),
    }
    torch.manual_seed(0)
    for name, (architecture, options) in networks.items():
        options = {"num_classes": 4, **options}
        card = ModelCard(
            architecture=architecture,
            options=options,
            preprocessing=Preprocessing(image_size=32, resize=32),
        )
        save_checkpoint(folder / name, build(architecture, **options), card)
    return {name: folder / name / "model.safetensors" for name in networks}


ADOPT = {"image_size": 32}
CONVNEXT = ADOPT | {"options.depths": "[1, 1, 1, 1]", "options.widths": "[8, 8, 8, 8]"}
INFLATE = {"num_frames": 4, "clip_seconds": 0.5, "num_classes": 2, "state": 8}
TUNE = {
    "recipe.epochs": 1, "recipe.batch_size": 4, "recipe.accumulation": 1, "recipe.workers": 0,
    "recipe.precision": "fp32", "decoding_workers": 1,
}  # fmt: skip
DECODE = {"workers": 1, "val_fraction": 0.3}
SCORE = {"execution.workers": 1}
SINGLE = {"clips": DECODE, "finetuned": TUNE, "scores": SCORE, "video_model": INFLATE}
TINY = {
    "hmdb51_s4nd.yaml": SINGLE | {"backbone": CONVNEXT, "scores": SCORE | {"frame_rates": "[4]"}},
    "hmdb51_i3d.yaml": SINGLE | {"backbone": CONVNEXT},
    "hmdb51_s3d.yaml": SINGLE | {"backbone": CONVNEXT},
    "hmdb51_inception_i3d.yaml": SINGLE | {"backbone": ADOPT},
    "hmdb51_delta.yaml": SINGLE | {"backbone": CONVNEXT},
    "hmdb51_randaugment.yaml": SINGLE
    | {
        "backbone": CONVNEXT,
        "finetuned": TUNE | {"matrix.augmentation.rand_augment_magnitude": "[3, 9]"},
    },
    "hmdb51_table.yaml": {
        "convnext": CONVNEXT,
        "s4nd_convnext": CONVNEXT,
        "inception": ADOPT,
        "clips": DECODE | {"matrix.split": "[1, 2]"},
        **dict.fromkeys(("inception_i3d", "i3d", "s3d", "s4nd"), INFLATE),
        **{f"{name}_tuned": TUNE for name in ("inception_i3d", "i3d", "s3d", "s4nd")},
        **{f"{name}_scores": SCORE for name in ("inception_i3d", "i3d", "s3d", "s4nd")},
    },
    "weizmann.yaml": {
        "backbone": {"architecture": "timm/test_resnet", "image_size": 32},
        "clips": {"workers": 1},
        "taps": INFLATE,
        "state_spaces": INFLATE | {"matrix.length": "[1, 20]"},
        "tuned_taps": TUNE,
        "tuned_state_spaces": TUNE,
        "scores_taps": SCORE,
        "scores_state_spaces": SCORE,
    },
}
QUICK = ("hmdb51_s4nd.yaml",)
MARKED = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
ROWS = {
    "hmdb51_delta.yaml": ["length=20", "length=4", "length=2", "length=1"],
    "hmdb51_table.yaml": ["inception_i3d_scores", "i3d_scores", "s3d_scores", "s4nd_scores"],
    "weizmann.yaml": ["method=none", "method=i3d", "method=s3d", "length=1", "length=20"],
}


@pytest.mark.parametrize("name", MARKED)
def test_it_runs_unchanged_at_a_tiny_scale(
    name, hmdb51, weizmann, backbones, tmp_path, monkeypatch
):
    monkeypatch.setenv("HMDB51", str(hmdb51))
    monkeypatch.setenv("WEIZMANN", str(weizmann))
    for variable, path in backbones.items():
        monkeypatch.setenv(variable, str(path))
    changes = [
        f"{stage}.{key}={value}"
        for stage, tiny in TINY[name].items()
        for key, value in tiny.items()
    ]
    pipeline = load_pipeline(PIPELINES / name, STAGES, overrides=changes)
    outcomes = run_jobs(pipeline.jobs, tmp_path)
    (table,) = [outcome for outcome in outcomes if outcome.job.stage == "table"]
    found = json.loads((table.folder / "table.json").read_text())
    rows = [row["name"] for row in found["rows"]]
    assert rows == ROWS.get(name, rows)
    assert all(row["parameters"] > 0 and row["seconds_per_step"] > 0 for row in found["rows"])
    expected = "last" if name.startswith("weizmann") else "validation"
    assert {row["protocol"] for row in found["rows"]} == {expected}
    if name == "hmdb51_delta.yaml":
        paper = [row["paper"] for row in found["rows"]]
        assert paper == pytest.approx([0.5374, 0.5833, 0.603, 0.6207])
        lengths = {row: layers[0]["initial_length"] for row, layers in found["time_axis"].items()}
        assert list(lengths.values()) == pytest.approx([20, 4, 2, 1])
        backbones_run = [o for o in outcomes if o.job.stage == "backbone"]
        assert len(backbones_run) == 1, "four fine-tunings share one backbone"
    if name == "hmdb51_table.yaml":
        assert {row["repeats"] for row in found["rows"]} == {2}
        assert all(row["deviation"] is not None for row in found["rows"])
