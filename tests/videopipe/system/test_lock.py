"""One process holds a lock at a time; the lock of a killed process is free."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

from videopipe.system.lock import FileLock, locked


def hold(path: Path, held: object) -> None:
    with locked(path, on_wait=lambda _: None):
        held.set()  # type: ignore[attr-defined]
        time.sleep(600)


def increase(path: Path, counter: Path) -> None:
    for _ in range(20):
        with locked(path, on_wait=lambda _: None):
            value = int(counter.read_text())
            time.sleep(0.001)
            counter.write_text(str(value + 1))


def start(target: object, *arguments: object) -> multiprocessing.Process:
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)  # type: ignore[arg-type]
    process.start()
    return process


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    held = multiprocessing.get_context("spawn").Event()
    process = start(hold, tmp_path / "lock", held)
    assert held.wait(300)
    waited: list[str] = []

    def kill(holder: str) -> None:
        waited.append(holder)
        os.kill(process.pid or 0, signal.SIGKILL)

    with locked(tmp_path / "lock", on_wait=kill):
        process.join()
    assert len(waited) == 1
    assert waited[0].startswith(f"process {process.pid} on ")


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    held = multiprocessing.get_context("spawn").Event()
    process = start(fork_and_hold, tmp_path / "lock", tmp_path / "child", held)
    assert held.wait(300)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    with locked(tmp_path / "lock", on_wait=lambda _: None):  # would wait for the child for ever
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def fork_and_hold(path: Path, child_file: Path, held: object) -> None:
    with locked(path, on_wait=lambda _: None):
        child = os.fork()
        if child:
            child_file.write_text(str(child))
            held.set()  # type: ignore[attr-defined]
        time.sleep(600)


def test_two_processes_take_turns(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [start(increase, tmp_path / "lock", counter) for _ in range(2)]
    for process in processes:
        process.join()
    assert counter.read_text() == "40"


def test_a_lock_is_shared_or_held_alone(tmp_path: Path) -> None:
    """Also within a process: each lock opens the file itself."""
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not second.try_acquire()
    assert not second.try_acquire(shared=True)
    first.acquire(shared=True)
    assert second.try_acquire(shared=True)
    assert not first.try_acquire()
    second.release()
    assert first.try_acquire()
    first.release()


def test_the_lock_of_a_removed_file_protects_nothing(tmp_path: Path) -> None:
    first, second, third = (FileLock(tmp_path / "lock") for _ in range(3))
    assert first.try_acquire()
    assert not second.try_acquire()  # it has opened the file, which is removed next
    first.path.unlink()
    first.release()
    assert second.try_acquire()
    assert not third.try_acquire()
