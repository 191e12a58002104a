"""The pool survives whatever a task does, with real processes."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from videopipe.data.pool import Event, Failed, Finished, WorkerPool

ROOT = Path(__file__).parents[3]


def behave(task: str) -> Iterator[object]:
    """Do what the task says; the worst of it holds the interpreter lock or kills the process."""
    kind, _, value = task.partition(":")
    if kind == "clip":
        frames = torch.full((4, 3, 64, 64), int(value), dtype=torch.uint8)
        yield frames.permute(1, 0, 2, 3), int(value)
    elif kind == "many":
        for index in range(int(value)):
            yield torch.full((3, 100, 100), index, dtype=torch.uint8)
    elif kind == "error":
        yield "before"
        raise ValueError("a bad file")
    elif kind == "hang":
        yield "before"
        ctypes.PyDLL(None).sleep(1000)  # PyDLL keeps the interpreter lock
    elif kind == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif kind == "memory":
        yield bytes(10 * 2**30)[:1]
    elif kind == "exit":
        os._exit(7)
    elif kind == "pid":
        yield os.getpid()
    elif kind == "stream":
        while True:
            yield os.getpid()
            time.sleep(0.01)


def outcomes(tasks: list[str], **options: float) -> dict[str, list[object]]:
    settings = {"workers": 2, "timeout_seconds": 1.0, "memory_limit_bytes": 2**30} | options
    results: dict[str, list[object]] = {}
    with WorkerPool(behave, **settings) as pool:
        for event in pool.run(tasks):
            results.setdefault(event.task, []).append(event)
    return results


def test_payloads_arrive_whole_and_in_order() -> None:
    results = outcomes([f"clip:{n}" for n in range(10)] + ["many:50"], timeout_seconds=60)
    for number in range(10):
        event, finished = results[f"clip:{number}"]
        assert isinstance(finished, Finished)
        frames, label = event.payload
        assert label == number
        assert frames.shape == (3, 4, 64, 64)
        assert (frames == number).all()
    *events, finished = results["many:50"]
    assert [int(event.payload[0, 0, 0]) for event in events] == list(range(50))
    assert isinstance(finished, Finished)


def test_nothing_a_task_does_stops_the_others() -> None:
    bad = ["error", "hang", "crash", "memory", "exit"]
    good = [f"clip:{n}" for n in range(12)]
    mixed = [task for pair in zip(good, [*bad, *good[5:]], strict=False) for task in pair]
    results = outcomes(list(dict.fromkeys(mixed)))
    for task in good:
        assert isinstance(results[task][-1], Finished), results[task]
    kinds = {task: (results[task][-1].kind, results[task][-1].reason) for task in bad}
    assert kinds["error"] == ("error", "ValueError: a bad file")
    assert kinds["hang"] == ("timeout", "no answer within 1 s; stopped")
    assert kinds["crash"] == ("crash", "the decoder's process was ended by SIGSEGV")
    assert kinds["memory"] == ("memory", "decoding needs more memory than a worker may use")
    assert kinds["exit"] == ("crash", "the decoder's process ended with exit code 7")
    assert results["error"][0] == Event("error", "before")
    assert all(sum(isinstance(e, Finished | Failed) for e in results[t]) == 1 for t in results)


def test_a_slow_consumer_bounds_the_workers_and_is_not_a_timeout() -> None:
    with WorkerPool(behave, workers=1, timeout_seconds=0.5, payloads_ahead=2) as pool:
        received = 0
        for event in pool.run(["many:8"]):
            received += isinstance(event, Event)
            if received == 3:
                time.sleep(1.5)
        assert isinstance(event, Finished)
    assert received == 8


def test_a_talkative_worker_does_not_hide_a_silent_one() -> None:
    with WorkerPool(behave, workers=2, timeout_seconds=3.0) as pool:
        started = time.monotonic()
        for event in pool.run(["stream:1", "hang:1"]):
            if isinstance(event, Failed):
                break
            assert time.monotonic() - started < 60, "the hanging task was never stopped"
    assert (event.task, event.kind) == ("hang:1", "timeout")


def test_no_worker_outlives_its_pool() -> None:
    with WorkerPool(behave, workers=2, timeout_seconds=60) as pool:
        events = pool.run(["stream:1", "stream:2"])
        pids = {next(events).payload for _ in range(20)}
        events.close()
        assert not any(is_alive(pid) for pid in pids)
        pids = {event.payload for event in pool.run(["pid:1", "pid:2"]) if isinstance(event, Event)}
        assert any(is_alive(pid) for pid in pids)
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_no_worker_outlives_a_killed_parent(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "from videopipe.data.pool import WorkerPool, Event\n"
        "from tests.videopipe.data.test_pool import behave\n"
        "if __name__ == '__main__':\n"
        "    with WorkerPool(behave, workers=2, timeout_seconds=600) as pool:\n"
        "        for event in pool.run(['pid:1', 'pid:2', 'hang:1', 'hang:2']):\n"
        "            if isinstance(event, Event):\n"
        "                print(event.payload, flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    printed = [parent.stdout.readline().strip() for _ in range(4)]
    pids = [int(line) for line in printed if line.isdigit()]
    assert printed.count("before") == 2
    parent.send_signal(how)
    parent.wait(timeout=60)
    limit = time.monotonic() + 60
    while any(is_alive(pid) for pid in pids) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not any(is_alive(pid) for pid in pids)


def test_a_function_that_cannot_be_imported_is_told() -> None:
    def local(task: str) -> Iterator[str]:
        yield task

    with (
        WorkerPool(local, workers=1, timeout_seconds=10) as pool,
        pytest.raises(Exception, match="local"),
    ):
        list(pool.run(["x"]))


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
