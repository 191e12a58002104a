"""File locks between processes: one writer per result, one run per table.

The lock is the operating system's (`flock`). It ends with the process that holds it, also when that
process is killed, so no stale lock is left. A forked child inherits the open file, which would keep
the lock alive after its parent; children close it at once. The content of the file only names the
holder for processes that wait.
"""

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from weakref import WeakSet


class FileLock:
    """A lock on a file, held by one process alone or shared by several."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        _LOCKS.add(self)

    @property
    def handle(self) -> int:
        """The file descriptor of the locked file."""
        if self._handle is None:
            raise RuntimeError(f"{self.path} is not locked")
        return self._handle

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Take the lock, or change how it is held; False while another process prevents it."""
        return self._acquire(fcntl.LOCK_NB | (fcntl.LOCK_SH if shared else fcntl.LOCK_EX))

    def acquire(self, *, shared: bool = False) -> None:
        """Take the lock, or change how it is held, as soon as no other process prevents it."""
        self._acquire(fcntl.LOCK_SH if shared else fcntl.LOCK_EX)

    def release(self) -> None:
        """Give the lock back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _acquire(self, operation: int) -> bool:
        while True:
            if self._handle is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(self._handle, operation)
            except BlockingIOError:
                return False
            if self._is_current():
                return True
            self.release()  # the last holder removed the file, so it protects nothing

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.handle), self.path.stat())
        except FileNotFoundError:
            return False


_LOCKS: WeakSet[FileLock] = WeakSet()  # of this process


def _release_in_child() -> None:
    for lock in list(_LOCKS):
        lock.release()  # closes the child's copy only; the parent still holds the lock


os.register_at_fork(after_in_child=_release_in_child)


@contextmanager
def locked(path: Path, *, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock at `path` alone.

    While another process holds it, `on_wait` is called once with a description of that process.
    """
    lock = FileLock(path)
    try:
        if not lock.try_acquire():
            on_wait(_holder(lock.handle))
            lock.acquire()
        _write_holder(lock.handle)
        yield
        os.ftruncate(lock.handle, 0)
    finally:
        lock.release()


def _write_holder(handle: int) -> None:
    started = datetime.now().isoformat(sep=" ", timespec="seconds")
    owner = {"process": os.getpid(), "host": socket.gethostname(), "since": started}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner).encode(), 0)


def _holder(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return f"process {owner['process']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):  # the holder has not written its name yet
        return "another process"
