"""The commands of docs/journeys/engineer.md print the output shown there."""

import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from tests.journeys.walk import REPOSITORY, VARIABLES, Command, File, Walk, read_page

PACKAGED = ("s4nd", "pretrained_2d", "videopipe", "pipelines", "setup.cfg", "pyproject.toml",
            "README.md", "LICENSE")  # fmt: skip


def offline(step: Command | File) -> Command | File:
    """The same step without the package index: torch is taken from the environment of the tests."""
    if isinstance(step, File):
        if shutil.which("g++") or shutil.which("clang++"):
            return step
        eager = 'torch.compile(network, backend="aot_eager")'
        return replace(step, text=step.text.replace("torch.compile(network)", eager))
    if step.text.startswith("pip wheel"):
        return replace(step, text=f"{step.text} --no-build-isolation")
    if "pip install" in step.text:
        borrowed = sysconfig.get_path("purelib")
        lend = f"echo {borrowed} > $(echo fresh/lib/python*/site-packages)/borrowed.pth"
        return replace(step, text=f"{step.text} --no-deps && {lend}")
    return step


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_layer_of_the_wheel_works_in_another_network(tmp_path: Path) -> None:
    clone = tmp_path / "videopipe"
    clone.mkdir()
    for name in PACKAGED:
        source = REPOSITORY / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, clone / name)
    steps = [offline(step) for step in read_page("engineer.md")]
    assert len(steps) == 5
    Walk(tmp_path, {**VARIABLES, "PYTHONPATH": ""}).take(steps)
