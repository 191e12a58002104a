"""Results are the same after random kills, with two runs at once, and with many processes."""

import importlib.util
import multiprocessing
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.processes import ACCELERATE, ENVIRONMENT, LONGEST_SECONDS

CHORES = Path(__file__).with_name("chores.py")
KILLS = 20

PIPELINE = """\
name: chores
stages:
  data:
    use: generate
    config:
      {train_videos: 2, val_videos: 1, test_videos: 1, unseen_videos: 2, train_images: 2,
       val_images: 1, size_pixels: 32, motions: [left, right, grow]}
  first:  {use: chain, inputs: {before: data}, config: {steps: 60}}
  second: {use: chain, inputs: {before: first}, matrix: {word: [a, b]}, config: {steps: 40}}
  last:   {use: chain, inputs: {before: [first, second]}, config: {steps: 40}}
"""


@pytest.fixture(scope="module")
def chores() -> ModuleType:
    spec = importlib.util.spec_from_file_location("chores", CHORES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["chores"] = module
    spec.loader.exec_module(module)
    return module


class Place:
    """A folder with a pipeline, its runs, and the log of what was started."""

    def __init__(self, folder: Path, text: str = PIPELINE) -> None:
        folder.mkdir(parents=True)
        self.runs, self.log, self.pipeline = folder / "runs", folder / "log", folder / "p.yaml"
        self.pipeline.write_text(text)
        self.log.touch()

    def started(self) -> list[str]:
        return [line.split()[1] for line in self.log.read_text().splitlines()]

    def complete(self) -> set[str]:
        return {file.parent.name for file in self.runs.glob("*/stage.json")
                if not file.parent.name.endswith(".partial")}  # fmt: skip

    def contents(self) -> dict[str, bytes]:
        """Every file of every result except the records, which contain times."""
        return {
            file.relative_to(self.runs).as_posix(): file.read_bytes()
            for file in sorted(self.runs.rglob("*"))
            if file.is_file() and file.name != "stage.json" and ".locks" not in file.parts
        }

    def launch(self, *launcher: str) -> subprocess.Popen[str]:
        command = [*(launcher or (sys.executable,)), str(CHORES)]
        return subprocess.Popen(
            [*command, str(self.runs), str(self.pipeline), str(self.log)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def test_twenty_kills_change_nothing(tmp_path: Path, chores: ModuleType) -> None:
    whole = Place(tmp_path / "whole")
    chores.run_pipeline(whole.runs, whole.pipeline, whole.log)
    assert max(Counter(whole.started()).values()) == 1
    fork = multiprocessing.get_context("fork")  # starts at once: kills happen during the work
    moments = random.Random(0)
    kills = rounds = 0
    while kills < KILLS:
        place = Place(tmp_path / f"round{rounds}")
        rounds += 1
        while True:
            finished, before = place.complete(), len(place.started())
            process = fork.Process(
                target=chores.run_pipeline, args=(place.runs, place.pipeline, place.log)
            )
            process.start()
            process.join(moments.uniform(0, 0.5) if kills < KILLS else None)
            killed = process.is_alive()
            process.kill()
            process.join()
            again = finished & set(place.started()[before:])
            assert not again, f"finished before, and run again: {again}"
            if not killed:
                assert process.exitcode == 0
                break
            kills += 1
        assert place.contents() == whole.contents()
    assert kills == KILLS


def test_two_processes_on_one_folder_share_the_work(tmp_path: Path) -> None:
    place = Place(tmp_path / "two")
    processes = [place.launch() for _ in range(2)]
    for process in processes:
        said, _ = process.communicate(timeout=LONGEST_SECONDS)
        assert process.returncode == 0, said
    assert len(place.complete()) == 5
    assert set(Counter(place.started()).values()) == {1}


DISTRIBUTED = """\
name: many
stages:
  alone: {use: chain, config: {steps: 2}}
  all:   {use: everywhere, inputs: {before: alone}}
  after: {use: chain, inputs: {before: all}, config: {steps: 2}}
"""


def test_under_accelerate_one_plans_all_run_and_results_are_written_once(tmp_path: Path) -> None:
    place = Place(tmp_path / "many", DISTRIBUTED)
    said, _ = (process := place.launch(*ACCELERATE)).communicate(timeout=LONGEST_SECONDS)
    assert process.returncode == 0, said
    ranks: dict[str, list[str]] = {}
    for line in place.log.read_text().splitlines():
        rank, folder = line.split()
        ranks.setdefault(folder.split("-")[0], []).append(rank)
    assert {stage: sorted(who) for stage, who in ranks.items()} == {
        "alone": ["0"],
        "all": ["0", "1"],
        "after": ["0"],
    }
    (value,) = place.runs.glob("all-*/value.txt")
    assert value.read_text() == "3"
    assert said.count("[2/3] all: running") == 1


def test_under_accelerate_a_failure_ends_every_process(tmp_path: Path) -> None:
    text = DISTRIBUTED.replace("use: everywhere", "use: fail")
    place = Place(tmp_path / "many", text)
    said, _ = (process := place.launch(*ACCELERATE)).communicate(timeout=LONGEST_SECONDS)
    assert process.returncode != 0
    assert "stage 'all' failed: nothing to be done" in said
