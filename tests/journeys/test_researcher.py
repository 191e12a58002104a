"""The commands of docs/journeys/researcher.md print the output shown there."""

from pathlib import Path

import pytest

from tests.journeys.walk import REPOSITORY, VARIABLES, Command, Walk, read_page


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands run: like a clone, but what they write stays out of the repository."""
    for name in ("tools", "pipelines"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    return tmp_path


def on_real_files(step: object) -> bool:
    """The first two commands of the page read the real data set."""
    return isinstance(step, Command) and step.text in ('videopipe check "$HMDB51"', "echo $?")


def test_real_files_are_reported_as_on_the_page(folder: Path, shared: Path) -> None:
    data = str(shared / "data" / "hmdb51")
    walk = Walk(folder, {**VARIABLES, "HMDB51": data}, {data: "/data/hmdb51"})
    walk.take([step for step in read_page("researcher.md") if on_real_files(step)])


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_table_is_rehearsed_interrupted_and_extended(folder: Path) -> None:
    steps = [step for step in read_page("researcher.md") if not on_real_files(step)]
    assert len(steps) == 11
    Walk(folder, VARIABLES).take(steps)
