"""The worker process of a `WorkerPool`: runs a function on one task after another."""

import ctypes
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

import torch

from videopipe.errors import DecodeError
from videopipe.system.pool_messages import receive, send

PR_SET_PDEATHSIG = 1  # linux/prctl.h
ALARM_GRACE_SECONDS = 10.0  # beyond the parent's limit, in case the parent has died
HEARTBEATS_PER_TIMEOUT = 8

_service: "_Service | None" = None  # of this process, when it is a worker


@dataclass(frozen=True)
class WorkerLimits:
    """What a worker may use for one step of one task, and how far it may run ahead."""

    timeout_seconds: float
    memory_bytes: int | None
    payloads_ahead: int


def serve(
    connection: Connection, function: Callable[[Any], Iterator[Any]], limits: WorkerLimits
) -> None:
    """Answer tasks with payloads until the pool closes the connection."""
    global _service
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # also ends a decoder that never returns
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(1)
    if limits.memory_bytes is not None:
        _limit_memory(limits.memory_bytes)
    try:
        send(connection, ("ready", None))
        _service = _Service(connection, function, limits)
        _service.run()
    except (EOFError, OSError):
        return  # the pool is gone


def heartbeat() -> None:
    """Report that the current task makes progress, so that its timeout starts again.

    A long task calls it often; messages are sent at a few per timeout. Without a pool it does
    nothing.
    """
    if _service is not None:
        _service.heartbeat()


class _Service:
    """The worker's end of the connection: tasks and credits in, payloads and heartbeats out."""

    def __init__(
        self,
        connection: Connection,
        function: Callable[[Any], Iterator[Any]],
        limits: WorkerLimits,
    ) -> None:
        self.connection = connection
        self.function = function
        self.limits = limits
        self.tasks: deque[Any] = deque()
        self.credits = limits.payloads_ahead
        self.heartbeat_seconds = limits.timeout_seconds / HEARTBEATS_PER_TIMEOUT
        self.last_heartbeat = 0.0

    def run(self) -> None:
        while True:
            while not self.tasks:
                self._take_message()
            self._answer(self.tasks.popleft())

    def heartbeat(self) -> None:
        now = time.monotonic()
        if now - self.last_heartbeat >= self.heartbeat_seconds:
            self.last_heartbeat = now
            self._disarm()
            send(self.connection, ("heartbeat", None))
            self._arm()

    def _answer(self, task: Any) -> None:
        try:
            self._arm()
            for payload in self.function(task):
                self._disarm()
                self._wait_for_credit()
                send(self.connection, ("payload", payload))
                self._arm()
        except (BrokenPipeError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: any failure belongs to its task
            self._disarm()
            send(self.connection, ("failed", describe_failure(error)))
        else:
            self._disarm()
            send(self.connection, ("finished", None))

    def _wait_for_credit(self) -> None:
        while self.connection.poll(0) or self.credits == 0:
            self._take_message()
        self.credits -= 1

    def _take_message(self) -> None:
        kind, content = receive(self.connection)
        if kind == "task":
            self.tasks.append(content)
        else:
            self.credits += 1

    def _arm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self.limits.timeout_seconds + ALARM_GRACE_SECONDS)

    def _disarm(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def describe_failure(error: Exception) -> tuple[str, str]:
    """The kind ("error" or "memory") and a reason in words."""
    if isinstance(error, MemoryError) or "not enough memory" in str(error):
        return "memory", "decoding needs more memory than a worker may use"
    if isinstance(error, DecodeError):
        return "error", error.reason
    return "error", f"{type(error).__name__}: {error}"


def _die_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends, for whatever reason.

    The parent is the fork server. It ends when no process holds its "alive" pipe any more. Every
    worker inherits that pipe, so it must close it.
    """
    alive_pipe = getattr(forkserver._forkserver, "_forkserver_alive_fd", None)
    if alive_pipe is not None:
        os.close(alive_pipe)
        forkserver._forkserver._forkserver_alive_fd = None  # type: ignore[attr-defined]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_memory(limit_bytes: int) -> None:
    """Bound private memory to what the libraries took at import plus `limit_bytes`."""
    if sys.platform != "linux":
        return  # other systems do not enforce the limit
    with open("/proc/self/status") as status:  # noqa: PTH123
        fields = dict(line.split(":", 1) for line in status)
    used_bytes = int(fields["VmData"].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used_bytes + limit_bytes,) * 2)
