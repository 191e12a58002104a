"""Run tasks in worker processes that can be killed.

A decoder may hang with the interpreter lock held, crash, or use up the memory. It therefore runs in
a worker process. A worker that is silent for too long is killed, one that dies is replaced, and the
task it had becomes a recorded failure; the other tasks continue.
"""

import multiprocessing
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Literal, Self, TypeVar

from videopipe.system import pool_worker
from videopipe.system.pool_messages import receive, send

T = TypeVar("T")
FailureKind = Literal["error", "timeout", "crash", "memory"]
START_ATTEMPTS = 3
START_SECONDS = 300.0  # a worker imports torch first, which can be slow on a busy machine
JOIN_SECONDS = 5.0  # a killed process may be stuck in the kernel, as on a lost network disk
LONGEST_WAIT_SECONDS = 3600.0
TASKS_QUEUED = 2  # per worker, so that it does not idle while the consumer is busy


@dataclass(frozen=True)
class Event(Generic[T]):
    """One payload that the function yielded for a task."""

    task: T
    payload: Any


@dataclass(frozen=True)
class Finished(Generic[T]):
    """The task is done; all its payloads were delivered before."""

    task: T


@dataclass(frozen=True)
class Failed(Generic[T]):
    """The task failed; payloads delivered before remain valid."""

    task: T
    reason: str
    kind: FailureKind


@dataclass
class _Assignment(Generic[T]):
    task: T
    payloads: int = 0
    retried: bool = False


@dataclass(eq=False)
class _Worker(Generic[T]):
    """A worker process. It works on the first assignment; the others wait."""

    process: BaseProcess
    connection: Connection
    ready: bool = False
    served: int = 0
    deadline: float = float("inf")
    assigned: deque[_Assignment[T]] = field(default_factory=deque)

    def kill(self) -> None:
        self.process.kill()
        self.process.join(JOIN_SECONDS)
        self.connection.close()


class WorkerPool(Generic[T]):
    """Runs `function(task) -> Iterator[payload]` on many tasks in worker processes.

    `function` must be importable by name (module level). `timeout_seconds` is the longest silence:
    a worker is killed when it neither yields a payload, nor calls `pool_worker.heartbeat`, nor ends
    its task for that long. `memory_limit_bytes` bounds the private memory that a worker takes for
    its tasks (Linux). Workers run at most `payloads_ahead` payloads ahead of the consumer.
    """

    def __init__(
        self,
        function: Callable[[T], Iterator[Any]],
        *,
        workers: int,
        timeout_seconds: float,
        memory_limit_bytes: int | None = None,
        payloads_ahead: int = 2,
    ) -> None:
        if workers < 1 or timeout_seconds <= 0 or payloads_ahead < 1:
            raise ValueError(
                f"a pool needs workers ≥ 1, timeout_seconds > 0 and payloads_ahead ≥ 1, "
                f"got {workers}, {timeout_seconds} and {payloads_ahead}"
            )
        self._function = function
        self._num_workers = workers
        self._limits = pool_worker.WorkerLimits(timeout_seconds, memory_limit_bytes, payloads_ahead)
        self._context = multiprocessing.get_context("forkserver")
        # Imported once, before workers are forked, which then start quickly and share the memory.
        ours = function.__module__.startswith("videopipe.")
        modules = ["videopipe.system.pool_worker", "videopipe.video.backends.pyav"]
        modules += [function.__module__] if ours else []
        self._context.set_forkserver_preload(modules)
        self._workers: list[_Worker[T]] = []
        self._failed_starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill every worker."""
        while self._workers:
            self._workers.pop().kill()

    def run(self, tasks: Iterable[T]) -> Iterator[Event[T] | Finished[T] | Failed[T]]:
        """Events of all tasks as they arrive; each task ends in one `Finished` or one `Failed`."""
        waiting = map(_Assignment, tasks)
        returned: deque[_Assignment[T]] = deque()
        try:
            while self._assign(waiting, returned):
                deadline = min(worker.deadline for worker in self._workers)
                connections = {worker.connection: worker for worker in self._workers}
                seconds = min(max(0.0, deadline - time.monotonic()), LONGEST_WAIT_SECONDS)
                readable = wait(list(connections), seconds)
                for connection in readable:
                    worker = connections[connection]  # type: ignore[index]
                    yield from self._receive(worker, returned)
                yield from self._stop_silent(returned)
        finally:
            for worker in [worker for worker in self._workers if worker.assigned]:
                self._remove(worker)  # the consumer stopped early

    def _assign(self, waiting: Iterator[_Assignment[T]], returned: deque[_Assignment[T]]) -> bool:
        """Assign tasks to workers, round-robin; False when no task is left or running."""
        for queued in range(TASKS_QUEUED):
            for position in range(self._num_workers):
                if position < len(self._workers) and len(self._workers[position].assigned) > queued:
                    continue
                assignment = returned.popleft() if returned else next(waiting, None)
                if assignment is None:
                    return any(worker.assigned for worker in self._workers)
                if position == len(self._workers):
                    self._workers.append(self._start())
                self._send_task(self._workers[position], assignment)
        return True

    def _start(self) -> _Worker[T]:
        ours, theirs = self._context.Pipe(duplex=True)
        process = self._context.Process(
            target=pool_worker.serve, args=(theirs, self._function, self._limits), daemon=True
        )
        process.start()
        theirs.close()
        _limit_waiting(ours, self._limits.timeout_seconds)
        return _Worker(process, ours, deadline=time.monotonic() + START_SECONDS)

    def _send_task(self, worker: _Worker[T], assignment: _Assignment[T]) -> None:
        worker.assigned.append(assignment)
        try:
            send(worker.connection, ("task", assignment.task))
        except OSError:  # it died, or does not read; the end of its connection is received next
            worker.process.kill()
            return
        if len(worker.assigned) == 1 and worker.ready:
            self._restart_timeout(worker)

    def _restart_timeout(self, worker: _Worker[T]) -> None:
        busy = bool(worker.assigned)
        limit = self._limits.timeout_seconds if busy else float("inf")
        worker.deadline = time.monotonic() + limit

    def _receive(
        self, worker: _Worker[T], returned: deque[_Assignment[T]]
    ) -> Iterator[Event[T] | Finished[T] | Failed[T]]:
        try:
            kind, content = receive(worker.connection)
        except BlockingIOError:  # it stopped in the middle of a message
            yield from self._stop(worker, returned)
            return
        except (EOFError, OSError):
            yield from self._remove_dead(worker, returned)
            return
        if kind == "ready":
            worker.ready, self._failed_starts = True, 0
        elif kind == "heartbeat":
            pass
        elif kind == "payload":
            worker.assigned[0].payloads += 1
            yield Event(worker.assigned[0].task, content)
            try:
                send(worker.connection, ("credit", None))
            except OSError:
                worker.process.kill()
                return
        elif kind == "failed" and content[0] == "memory" and self._may_retry(worker):
            yield from self._remove_dead(worker, returned)
            return
        else:
            task = worker.assigned.popleft().task
            worker.served += 1
            yield Finished(task) if kind == "finished" else Failed(task, content[1], content[0])
        self._restart_timeout(worker)

    def _may_retry(self, worker: _Worker[T]) -> bool:
        """Whether an earlier task of this worker may be the cause: the current one has a retry."""
        current = worker.assigned[0]
        return worker.served > 0 and current.payloads == 0 and not current.retried

    def _remove_dead(
        self, worker: _Worker[T], returned: deque[_Assignment[T]]
    ) -> Iterator[Failed[T]]:
        """Fail or retry the current task of a worker that died; reassign its other tasks."""
        self._remove(worker)
        if not worker.ready:
            self._count_failed_start(worker)
        elif worker.assigned and self._may_retry(worker):
            worker.assigned[0].retried = True
        elif worker.assigned:
            yield _death(worker.assigned.popleft().task, worker.process.exitcode)
        returned.extendleft(reversed(worker.assigned))

    def _count_failed_start(self, worker: _Worker[T]) -> None:
        self._failed_starts += 1
        if self._failed_starts >= START_ATTEMPTS:
            raise RuntimeError(
                f"worker processes end before they start (exit code {worker.process.exitcode}); "
                f"is {self._function.__module__}.{self._function.__qualname__} importable, and "
                "is the main script guarded by `if __name__ == '__main__':`?"
            )

    def _stop_silent(self, returned: deque[_Assignment[T]]) -> Iterator[Failed[T]]:
        """Kill the workers whose timeout is over."""
        now = time.monotonic()
        for worker in [worker for worker in self._workers if worker.deadline <= now]:
            if not worker.connection.poll(0):  # else a message arrived in the meantime
                yield from self._stop(worker, returned)

    def _stop(self, worker: _Worker[T], returned: deque[_Assignment[T]]) -> Iterator[Failed[T]]:
        """Kill a worker and fail its current task with a timeout; reassign its other tasks."""
        self._remove(worker)
        if not worker.ready:
            self._count_failed_start(worker)
        elif worker.assigned:
            limit = self._limits.timeout_seconds
            task = worker.assigned.popleft().task
            yield Failed(task, f"no answer within {limit:g} s; stopped", "timeout")
        returned.extendleft(reversed(worker.assigned))

    def _remove(self, worker: _Worker[T]) -> None:
        self._workers.remove(worker)
        worker.kill()


def _limit_waiting(connection: Connection, seconds: float) -> None:
    """Make reads and writes fail with BlockingIOError instead of waiting longer than this."""
    seconds = min(max(seconds, 1e-3), LONGEST_WAIT_SECONDS)
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _death(task: T, exit_code: int | None) -> Failed[T]:
    if exit_code == -signal.SIGALRM:
        return Failed(task, "no answer within the time limit; stopped", "timeout")
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (by the system, perhaps because memory ran out)" if name == "SIGKILL" else ""
        return Failed(task, f"the decoder's process was ended by {name}{hint}", "crash")
    return Failed(task, f"the decoder's process ended with exit code {exit_code}", "crash")
