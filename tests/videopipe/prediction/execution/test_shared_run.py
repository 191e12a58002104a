import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from videopipe.errors import VideopipeError
from videopipe.prediction.execution.shared_run import SharedRun, TableLock


def team_of(folder: Path, rank: int, size: int) -> SharedRun:
    return SharedRun("run", folder / ".all.csv.run.team", rank, size)


def test_every_number_is_given_to_one_process_only(tmp_path):
    teams = [team_of(tmp_path, rank, 4) for rank in range(4)]
    teams[0].folder.mkdir()
    taken: list[list[int]] = [[] for _ in teams]

    def work(rank: int) -> None:
        taken[rank].extend(teams[rank].shares(500))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(number for numbers in taken for number in numbers) == Counter(range(500))


def test_a_slow_process_takes_fewer_videos(tmp_path):
    slow, quick = team_of(tmp_path, 0, 2), team_of(tmp_path, 1, 2)
    slow.folder.mkdir()
    numbers = slow.shares(10)
    assert next(numbers) == 0  # from here on it is busy
    assert list(quick.shares(10)) == list(range(1, 10))
    assert list(numbers) == []


def test_all_processes_get_the_plan_of_the_first(tmp_path):
    first, second = team_of(tmp_path, 0, 2), team_of(tmp_path, 1, 2)
    plan = {"order": ["a", "b"], "odd name": "caf\udce9"}
    assert first.plan(lambda: plan) == plan
    assert second.plan(lambda: pytest.fail("the first one plans")) == plan


def test_all_processes_get_the_failure_of_the_first(tmp_path):
    first, second = team_of(tmp_path, 0, 2), team_of(tmp_path, 1, 2)

    def fail() -> dict[str, object]:
        raise VideopipeError("no videos found")

    with pytest.raises(VideopipeError, match="no videos found"):
        first.plan(fail)
    with pytest.raises(VideopipeError, match="no videos found"):
        second.plan(dict)


def test_the_last_to_finish_gets_all_reports(tmp_path):
    teams = [team_of(tmp_path, rank, 3) for rank in range(3)]
    teams[0].folder.mkdir()
    assert teams[2].finish({"videos": 2}) is None
    assert teams[0].finish({"videos": 5}) is None
    assert teams[1].finish({"videos": 1}) == [{"videos": 5}, {"videos": 1}, {"videos": 2}]


def test_folders_of_killed_runs_are_removed(tmp_path):
    team = team_of(tmp_path, 0, 2)
    for name in (".all.csv.run.team", ".all.csv.older.team", ".other.csv.older.team"):
        (tmp_path / name).mkdir()
    team.remove_older()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".all.csv.run.team",
        ".other.csv.older.team",
    ]
    team.remove()
    team.await_end()
    assert [path.name for path in tmp_path.iterdir()] == [".other.csv.older.team"]


HOLD = """
import sys, time
from pathlib import Path
from videopipe.prediction.execution.shared_run import TableLock
lock = TableLock(Path(sys.argv[1]), Path("all.csv"))
lock.begin()
lock.share()
print("held", flush=True)
time.sleep(600)
"""


def test_a_table_is_free_as_soon_as_its_processes_are_dead(tmp_path):
    path = tmp_path / ".all.csv.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(VideopipeError, match=r"another run is writing all\.csv"):
        TableLock(path, Path("all.csv")).begin(patience_seconds=0.1)
    companion = TableLock(path, Path("all.csv"))
    companion.share()  # another process of the same run may come in
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with pytest.raises(VideopipeError, match="another run"):
        TableLock(path, Path("all.csv")).begin(patience_seconds=0.1)
    companion.release()
    next_run = TableLock(path, Path("all.csv"))
    next_run.begin(patience_seconds=0.1)
    next_run.clear()
    next_run.release()
