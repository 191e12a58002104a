"""Every 2D pipeline of the paper validates, and runs unchanged at a tiny scale."""

from pathlib import Path

import pytest

from pretrained_2d.checkpoints.folder import load_checkpoint
from tests.pipelines.tiny import PIPELINES, TINY, tiny
from videopipe.cli import main
from videopipe.pipeline.jobs import load_pipeline
from videopipe.pipeline.run import run_jobs
from videopipe.stages import STAGES

NAMES = sorted(
    path.name
    for path in PIPELINES.glob("*.yaml")
    if path.name.startswith(("imagenet_", "cifar10_", "celeba_"))
)
HEAD = ("# Reproduces:", "# Run:", "# Hardware:", "# Time:", "# Expected:")


def test_all_ten_are_there():
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_it_validates_and_says_what_it_reproduces(name, capsys):
    assert main(["validate", "--without-data", str(PIPELINES / name)]) == 0
    text = (PIPELINES / name).read_text()
    assert [line for line in HEAD if line not in text] == []
    assert text.split("name: ")[1].split()[0] == Path(name).stem
    assert len(text.splitlines()) <= 60, "fits on a page"


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_unchanged_at_a_tiny_scale(name, variables, tmp_path, monkeypatch):
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    pipeline = load_pipeline(PIPELINES / name, STAGES, overrides=tiny(name))
    outcomes = run_jobs(pipeline.jobs, tmp_path)
    assert {outcome.job.stage for outcome in outcomes} == set(TINY[name])
    for outcome in outcomes:
        network, card = load_checkpoint(outcome.folder)
        assert card.labels is not None
        assert network.head.out_features == len(card.labels)
        assert 0 <= outcome.summary["best"]["accuracy"] <= 1
