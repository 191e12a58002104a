"""Work done in processes that can be killed.

A decoder may hang with the interpreter lock held, crash, or eat the machine's memory. So it runs in
a worker process: one that is silent for too long is killed, one that dies is replaced, and the task
it had becomes a recorded failure while the work goes on.
"""

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Literal, Self, TypeVar

from videopipe.data import pool_worker
from videopipe.data.pool_messages import receive, send

T = TypeVar("T")
FailureKind = Literal["error", "timeout", "crash", "memory"]
START_ATTEMPTS = 3
START_SECONDS = 300.0  # a worker imports torch first, which can be slow on a busy machine
LONGEST_WAIT_SECONDS = 3600.0
TASKS_QUEUED = 2  # per worker, so that it need not wait while the consumer is busy


@dataclass(frozen=True)
class Event(Generic[T]):
    """One payload that the function yielded for a task."""

    task: T
    payload: Any


@dataclass(frozen=True)
class Finished(Generic[T]):
    """The task is done; all its payloads have been given out."""

    task: T


@dataclass(frozen=True)
class Failed(Generic[T]):
    """The task ended badly; payloads given out before remain good."""

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
    """A process as its pool sees it. The first assignment is the one being worked on."""

    process: BaseProcess
    connection: Connection
    ready: bool = False
    served: int = 0
    deadline: float = float("inf")
    assigned: deque[_Assignment[T]] = field(default_factory=deque)

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class WorkerPool(Generic[T]):
    """Runs `function(task) -> Iterator[payload]` on many tasks, each where it can be killed.

    `function` must be importable by name (module level). `timeout_seconds` is the longest silence:
    the time a worker may take to the first payload, from one payload to the next, or to the end.
    `memory_limit_bytes` bounds the private memory a worker takes for its tasks (Linux).
    Workers run at most `payloads_ahead` payloads ahead of the consumer.
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
        # Imported once, before workers are forked: they start in no time and share the memory.
        ours = function.__module__.startswith("videopipe.")
        modules = ["videopipe.data.pool_worker", "videopipe.data.backends.pyav"]
        modules += [function.__module__] if ours else []
        self._context.set_forkserver_preload(modules)
        self._workers: list[_Worker[T]] = []
        self._failed_starts = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill every worker; nothing is left running."""
        while self._workers:
            self._workers.pop().kill()

    def run(self, tasks: Iterable[T]) -> Iterator[Event[T] | Finished[T] | Failed[T]]:
        """Events of all tasks as they come; each task ends in one `Finished` or one `Failed`."""
        waiting = map(_Assignment, tasks)
        returned: deque[_Assignment[T]] = deque()
        try:
            while self._assign(waiting, returned):
                deadline = min(worker.deadline for worker in self._workers)
                connections = {worker.connection: worker for worker in self._workers}
                seconds = min(max(0.0, deadline - time.monotonic()), LONGEST_WAIT_SECONDS)
                readable = wait(list(connections), seconds)
                for connection in readable:
                    yield from self._hear(connections[connection], returned)  # type: ignore[index]
                yield from self._end_silent(returned)
        finally:
            for worker in [worker for worker in self._workers if worker.assigned]:
                self._remove(worker)  # a consumer that stopped early wants no more of these

    def _assign(self, waiting: Iterator[_Assignment[T]], returned: deque[_Assignment[T]]) -> bool:
        """Hand out tasks, breadth first; False when nothing is left to wait for."""
        for queued in range(TASKS_QUEUED):
            for position in range(self._num_workers):
                if position < len(self._workers) and len(self._workers[position].assigned) > queued:
                    continue
                assignment = returned.popleft() if returned else next(waiting, None)
                if assignment is None:
                    return any(worker.assigned for worker in self._workers)
                if position == len(self._workers):
                    self._workers.append(self._start())
                self._give(self._workers[position], assignment)
        return True

    def _start(self) -> _Worker[T]:
        ours, theirs = self._context.Pipe(duplex=True)
        process = self._context.Process(
            target=pool_worker.serve, args=(theirs, self._function, self._limits), daemon=True
        )
        process.start()
        theirs.close()
        return _Worker(process, ours, deadline=time.monotonic() + START_SECONDS)

    def _give(self, worker: _Worker[T], assignment: _Assignment[T]) -> None:
        worker.assigned.append(assignment)
        try:
            send(worker.connection, ("task", assignment.task))
        except OSError:
            return  # it died; its end of the pipe will tell, and the task is still listed
        if len(worker.assigned) == 1 and worker.ready:
            self._restart_clock(worker)

    def _restart_clock(self, worker: _Worker[T]) -> None:
        busy = bool(worker.assigned)
        limit = self._limits.timeout_seconds if busy else float("inf")
        worker.deadline = time.monotonic() + limit

    def _hear(
        self, worker: _Worker[T], returned: deque[_Assignment[T]]
    ) -> Iterator[Event[T] | Finished[T] | Failed[T]]:
        try:
            kind, content = receive(worker.connection)
        except (EOFError, OSError):
            yield from self._bury(worker, returned)
            return
        if kind == "ready":
            worker.ready, self._failed_starts = True, 0
        elif kind == "payload":
            worker.assigned[0].payloads += 1
            yield Event(worker.assigned[0].task, content)
            try:
                send(worker.connection, ("credit", None))
            except OSError:
                return
        elif kind == "failed" and content[0] == "memory" and self._may_retry(worker):
            yield from self._bury(worker, returned)
            return
        else:
            task = worker.assigned.popleft().task
            worker.served += 1
            yield Finished(task) if kind == "finished" else Failed(task, content[1], content[0])
        self._restart_clock(worker)

    def _may_retry(self, worker: _Worker[T]) -> bool:
        """Whether an earlier task of this worker may be to blame for what went wrong."""
        current = worker.assigned[0]
        return worker.served > 0 and current.payloads == 0 and not current.retried

    def _bury(self, worker: _Worker[T], returned: deque[_Assignment[T]]) -> Iterator[Failed[T]]:
        """Take leave of a dead worker: blame its current task, give back the others."""
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

    def _end_silent(self, returned: deque[_Assignment[T]]) -> Iterator[Failed[T]]:
        """Kill workers whose time is up."""
        now = time.monotonic()
        for worker in [worker for worker in self._workers if worker.deadline <= now]:
            if worker.connection.poll(0):
                continue  # it spoke after all
            self._remove(worker)
            if not worker.ready:
                self._count_failed_start(worker)
            else:
                limit = self._limits.timeout_seconds
                task = worker.assigned.popleft().task
                yield Failed(task, f"no answer within {limit:g} s; stopped", "timeout")
            returned.extendleft(reversed(worker.assigned))

    def _remove(self, worker: _Worker[T]) -> None:
        self._workers.remove(worker)
        worker.kill()


def _death(task: T, exit_code: int | None) -> Failed[T]:
    if exit_code == -signal.SIGALRM:
        return Failed(task, "no answer within the time limit; stopped", "timeout")
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (by the system, perhaps for want of memory)" if name == "SIGKILL" else ""
        return Failed(task, f"the decoder's process was ended by {name}{hint}", "crash")
    return Failed(task, f"the decoder's process ended with exit code {exit_code}", "crash")
