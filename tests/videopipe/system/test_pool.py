"""The pool continues after any failure of a task, with real processes."""

import ctypes
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.processes import ENVIRONMENT, LONGEST_SECONDS
from videopipe.system import pool_worker
from videopipe.system.pool import Event, Failed, Finished, WorkerPool


def behave(task: str) -> Iterator[object]:
    """Behave as the task names it, such as hang with the interpreter lock or kill the process."""
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
    else:
        yield from take_long(kind, value)


def take_long(kind: str, value: str) -> Iterator[object]:
    if kind == "stream":
        while True:
            yield os.getpid()
            time.sleep(0.01)
    elif kind == "stall":  # in the middle of a message: a length, and nothing after it
        os.write(pool_worker._service.connection.fileno(), struct.pack("!i", 1000))
        ctypes.PyDLL(None).sleep(1000)
    elif kind == "progress":  # without a payload, for longer than the timeout
        started = time.monotonic()
        while time.monotonic() - started < float(value):
            pool_worker.heartbeat()
            time.sleep(0.05)
        yield "done"


# Long enough for a good task on a machine with other work, short enough to wait for.
SILENCE_SECONDS = 5.0


def outcomes(tasks: list[str], **options: float) -> dict[str, list[object]]:
    limits = {"timeout_seconds": SILENCE_SECONDS, "memory_limit_bytes": 2**30} | options
    results: dict[str, list[object]] = {}
    with WorkerPool(behave, workers=2, **limits) as pool:
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
    bad = ["error", "crash", "memory", "exit", "hang", "stall"]  # the last two at the same time
    good = [f"clip:{n}" for n in range(12)]
    mixed = [task for pair in zip(good, [*bad, *good[6:]], strict=False) for task in pair]
    results = outcomes(list(dict.fromkeys(mixed)))
    for task in good:
        assert isinstance(results[task][-1], Finished), results[task]
    kinds = {task: (results[task][-1].kind, results[task][-1].reason) for task in bad}
    assert kinds["error"] == ("error", "ValueError: a bad file")
    # The worker's own alarm, ten seconds later, has other words.
    assert kinds["hang"] == kinds["stall"] == ("timeout", "no answer within 5 s; stopped")
    assert kinds["crash"] == ("crash", "the decoder's process was ended by SIGSEGV")
    assert kinds["memory"] == ("memory", "decoding needs more memory than a worker may use")
    assert kinds["exit"] == ("crash", "the decoder's process ended with exit code 7")
    assert results["error"][0] == Event("error", "before")
    assert all(sum(isinstance(e, Finished | Failed) for e in results[t]) == 1 for t in results)


def test_heartbeats_prevent_a_timeout() -> None:
    results = outcomes(["progress:4"], timeout_seconds=3.0)
    assert results["progress:4"] == [Event("progress:4", "done"), Finished("progress:4")]


def test_a_process_that_does_not_end_when_killed_stops_nothing() -> None:
    """As on a lost network disk: the fork server is stopped, so the end is not reported."""
    script = (
        "import os, signal, multiprocessing.forkserver as forkserver\n"
        "from videopipe.system.pool import WorkerPool, Event\n"
        "from tests.videopipe.system.test_pool import behave\n"
        "with WorkerPool(behave, workers=1, timeout_seconds=3) as pool:\n"
        "    for event in pool.run(['hang']):\n"
        "        if isinstance(event, Event):\n"
        "            server = forkserver._forkserver._forkserver_pid\n"
        "            os.kill(server, signal.SIGSTOP)\n"
        "print(event.kind, flush=True)\n"
        "os.kill(server, signal.SIGCONT)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=LONGEST_SECONDS,
    )
    assert done.stdout == "timeout\n", done.stderr


def test_a_slow_consumer_bounds_the_workers_and_is_not_a_timeout() -> None:
    with WorkerPool(behave, workers=1, timeout_seconds=3.0, payloads_ahead=2) as pool:
        received = 0
        for event in pool.run(["many:8"]):
            received += isinstance(event, Event)
            if received == 3:
                time.sleep(4)
        assert isinstance(event, Finished)
    assert received == 8


def test_a_busy_worker_does_not_hide_a_silent_one() -> None:
    with WorkerPool(behave, workers=2, timeout_seconds=SILENCE_SECONDS) as pool:
        for event in pool.run(["stream:1", "hang:1"]):  # endless unless the silent one is killed
            if isinstance(event, Failed):
                break
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


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_outlives_a_killed_parent(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "from videopipe.system.pool import WorkerPool, Event\n"
        "from tests.videopipe.system.test_pool import behave\n"
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
        env=ENVIRONMENT,
    )
    assert parent.stdout is not None
    printed = [parent.stdout.readline().strip() for _ in range(4)]
    pids = [int(line) for line in printed if line.isdigit()]
    assert printed.count("before") == 2
    parent.send_signal(how)
    parent.wait(timeout=LONGEST_SECONDS)
    parent.stdout.close()
    while any(is_alive(pid) for pid in pids):  # the limit of the test ends this
        time.sleep(0.05)


def test_a_function_that_cannot_be_imported_is_an_error() -> None:
    def local(task: str) -> Iterator[str]:
        yield task

    with (
        WorkerPool(local, workers=1, timeout_seconds=60) as pool,
        pytest.raises(Exception, match="local"),
    ):
        list(pool.run(["x"]))


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
