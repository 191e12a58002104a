"""Every shipped pipeline with two processes gives the numbers of one process."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.pipelines.test_video_pipelines import NAMES, check_table
from tests.pipelines.tiny import PIPELINES, TINY, tiny
from tests.processes import ACCELERATE, ENVIRONMENT
from videopipe.evaluation.score_table import read_scores
from videopipe.pipeline.jobs import load_pipeline
from videopipe.pipeline.run import run_jobs
from videopipe.stages import STAGES

# Trained batch norms see half a batch in each of two processes.
WITH_BATCH_NORM = ("inception",)
# One launch runs several pipelines: most of the time of a launch is spent on imports.
PROGRAM = """
import json, sys
from videopipe.cli import main
if __name__ == "__main__":  # decoding processes import this file
    for words in json.loads(sys.argv[1]):
        if code := main(words):
            sys.exit(code)
"""
GROUPS = {
    "images": [name for name in TINY if name.startswith(("imagenet_", "cifar10_", "celeba_"))],
    "hmdb51": [name for name in TINY if name.startswith("hmdb51_")],
    "others": [
        "weizmann.yaml", "motion.yaml", "motion_learning_rates.yaml", "motion_probes.yaml",
        "jhmdb21.yaml", "demo.yaml",
    ],
}  # fmt: skip


# Launched with two processes in its own test file.
ELSEWHERE = ["probe.yaml"]


def test_every_pipeline_is_launched() -> None:
    launched = [name for names in GROUPS.values() for name in names] + ELSEWHERE
    assert sorted(launched) == sorted(path.name for path in PIPELINES.glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", GROUPS)
def test_two_processes_give_the_numbers_of_one(
    group: str, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    launched = launch_two(GROUPS[group], tmp_path / "two", variables)
    for name in GROUPS[group]:
        # Two parts of a batch in one process are what two processes do with one each.
        pipeline = load_pipeline(
            PIPELINES / name, STAGES, overrides=[*tiny(name), *accumulated(name, 2)]
        )
        outcomes = run_jobs(pipeline.jobs, tmp_path / "one" / name)
        if name in NAMES:
            check_table(name, outcomes)
        one = {outcome.job.label: outcome.folder for outcome in outcomes}
        two = launched[name]
        assert list(one) == list(two)
        assert one
        for label in one:
            if not any(word in f"{name} {label}" for word in WITH_BATCH_NORM):
                compare(one[label], two[label])


def launch_two(
    names: list[str], runs: Path, variables: dict[str, str]
) -> dict[str, dict[str, Path]]:
    """Run pipelines to their end; for each, the folder of every result by its label."""
    commands = [
        ["run", str(PIPELINES / name), "--runs", str(runs / name)]
        + [f"--set={change}" for change in (*tiny(name), *accumulated(name, 1))]
        for name in names
    ]
    runs.mkdir()
    program = runs / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [*ACCELERATE, str(program), json.dumps(commands)],
        env=ENVIRONMENT | variables, capture_output=True, text=True, timeout=1500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, Path]] = {name: {} for name in names}
    for line in done.stdout.splitlines():
        label, tab, folder = line.partition("\t")
        if tab:
            found[Path(folder).relative_to(runs).parts[0]][label] = Path(folder)
    return found


def accumulated(name: str, parts: int) -> list[str]:
    """The settings that divide each batch of a pipeline's trainings into parts."""
    jobs = load_pipeline(PIPELINES / name, STAGES, check_paths=False).jobs
    trains = {job.stage for job in jobs if hasattr(job.config, "recipe")}
    return [f"{stage}.recipe.accumulation={parts}" for stage in sorted(trains)]


def compare(one: Path, two: Path) -> None:
    record = json.loads((one / "stage.json").read_text())
    if record["use"] in ("pretrain", "finetune"):
        compare_weights(one, two, record)
    elif record["use"] == "evaluate":
        scores = [read_scores(folder) for folder in (one, two)]
        names = [[Path(path).name for path in table.paths] for table in scores]
        assert names[0] == names[1]
        # The weights differ by rounding, which Adam turns into steps of the learning rate.
        np.testing.assert_allclose(scores[0].scores, scores[1].scores, atol=0.1)
    elif record["use"] == "predict":
        tables = [(folder / "predictions.csv").read_text() for folder in (one, two)]
        assert tables[0].count("\n") == tables[1].count("\n")


def compare_weights(one: Path, two: Path, record: dict[str, dict[str, dict[str, float]]]) -> None:
    """Compare to within the learning rate per step, by which rounding changes weights of Adam."""
    weights = [load_file(folder / "model.safetensors") for folder in (one, two)]
    recipe, summary = record["config"]["recipe"], record["summary"]
    bound = 2.5 * max(recipe["lr"], recipe.get("state_space_lr") or 0) * summary["steps"]
    assert weights[0].keys() == weights[1].keys()
    for key, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][key], atol=bound, err_msg=key)
