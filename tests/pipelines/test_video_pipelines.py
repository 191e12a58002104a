"""Every video pipeline validates, names what it reproduces, and runs unchanged at a tiny scale."""

import json
from pathlib import Path

import pytest

from tests.pipelines.tiny import PIPELINES, tiny
from videopipe.cli import main
from videopipe.pipeline.jobs import load_pipeline
from videopipe.pipeline.run import Outcome, run_jobs
from videopipe.stages import STAGES

# Not of the paper.
SHOWN = ("jhmdb21", "motion", "motion_learning_rates", "motion_probes", "weizmann")
NAMES = sorted(
    path.name for path in PIPELINES.glob("*.yaml") if path.name.startswith(("hmdb51_", *SHOWN))
)


def test_all_of_them_are_there():
    wanted = ["delta", "i3d", "inception_i3d", "randaugment", "s3d", "s4nd", "table"]
    assert [*(f"hmdb51_{name}.yaml" for name in wanted), *(f"{n}.yaml" for n in SHOWN)] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_validates_and_says_what_it_reproduces(name):
    assert main(["validate", "--without-data", str(PIPELINES / name)]) == 0
    text = (PIPELINES / name).read_text()
    first = "# Shows:" if name.startswith(SHOWN) else "# Reproduces:"
    head = (first, "# Run:", "# Hardware:", "# Time:", "# Expected:")
    assert [line for line in head if line not in text] == []
    assert text.split("name: ")[1].split()[0] == Path(name).stem
    limit = 90 if name == "motion.yaml" else 60  # two data sets in one file
    assert len(text.splitlines()) <= limit, "fits on a page"


ROWS = {
    "hmdb51_delta.yaml": ["length=20", "length=4", "length=2", "length=1"],
    "hmdb51_table.yaml": ["inception_i3d_scores", "i3d_scores", "s3d_scores", "s4nd_scores"],
    "jhmdb21.yaml": ["method=none", "method=i3d", "length=4", "scores_shuffled"],
    "motion.yaml": [
        "gesture_taps.method=none",
        "gesture_taps.method=i3d",
        "gesture_state_spaces.length=4",
        "gesture_scores_shuffled",
    ],
    "motion_probes.yaml": ["jhmdb_probes.head=mean", "jhmdb_probes.head=s4nd"],
    "weizmann.yaml": ["method=none", "method=i3d", "method=s3d", "length=1", "length=20"],
}


def test_one_runs_unchanged_at_a_tiny_scale(variables, tmp_path, monkeypatch):
    """The others run in `test_two_processes.py`."""
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    name = "hmdb51_s4nd.yaml"
    pipeline = load_pipeline(PIPELINES / name, STAGES, overrides=tiny(name))
    check_table(name, run_jobs(pipeline.jobs, tmp_path))


def check_table(name: str, outcomes: list[Outcome]) -> None:
    """The table at the end of a video pipeline has the rows that the pipeline announces."""
    table = [outcome for outcome in outcomes if outcome.job.stage.endswith("table")][-1]
    found = json.loads((table.folder / "table.json").read_text())
    rows = [row["name"] for row in found["rows"]]
    assert rows == ROWS.get(name, rows)
    assert all(row["parameters"] > 0 and row["seconds_per_step"] > 0 for row in found["rows"])
    last = ("jhmdb21.yaml", "motion.yaml", "motion_probes.yaml", "weizmann.yaml")
    expected = "last" if name in last else "validation"
    assert {row["protocol"] for row in found["rows"]} == {expected}
    if name == "hmdb51_delta.yaml":
        paper = [row["paper"] for row in found["rows"]]
        assert paper == pytest.approx([0.5374, 0.5833, 0.603, 0.6207])
        lengths = {row: layers[0]["initial_length"] for row, layers in found["time_axis"].items()}
        assert list(lengths.values()) == pytest.approx([20, 4, 2, 1])
        backbones_run = [o for o in outcomes if o.job.stage == "backbone"]
        assert len(backbones_run) == 1, "four fine-tunings share one backbone"
    if name in ("hmdb51_table.yaml", "jhmdb21.yaml", "motion.yaml", "motion_probes.yaml"):
        assert {row["repeats"] for row in found["rows"]} == {2}
        assert all(row["deviation"] is not None for row in found["rows"])
