"""One process at a time per result.

The lock is the operating system's (`lockf`): it ends with the process that holds it, however that
ends, so a lock left by a dead process is free. The file only tells others whom they wait for.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

POLL_SECONDS = 0.2


@contextmanager
def locked(path: Path, *, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock at `path`; while another process does, say so once and wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        waiting = False
        while not _try_lock(handle):
            if not waiting:
                on_wait(_holder(handle))
                waiting = True
            time.sleep(POLL_SECONDS)
        _sign(handle)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)  # ends the lock


def _try_lock(handle: int) -> bool:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the two ways in which systems say "taken"
        return False
    return True


def _sign(handle: int) -> None:
    started = datetime.now().isoformat(sep=" ", timespec="seconds")
    owner = {"process": os.getpid(), "host": socket.gethostname(), "since": started}
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner).encode(), 0)


def _holder(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return f"process {owner['process']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):  # it has just begun, and not signed yet
        return "another process"
