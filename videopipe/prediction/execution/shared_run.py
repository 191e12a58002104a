"""Several processes that fill one table: the shared plan, the share of each, and the lock.

`accelerate launch` starts the processes. They agree on a name for the run, and then communicate
through files only: a process may be hours behind another, and no collective call can time out.
"""

import glob
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pretrained_2d.atomic import write_text
from videopipe.errors import VideopipeError
from videopipe.system.lock import FileLock

POLL_SECONDS = 0.05


class SharedRun:
    """The processes of one run; `size` is 1 for a run in a single process.

    They exchange files in a hidden folder beside the table.
    """

    def __init__(self, name: str, folder: Path, rank: int = 0, size: int = 1) -> None:
        self.name = name  # sorts by time of start
        self.folder, self.rank, self.size = folder, rank, size
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))

    def plan(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `make` returns or raises in the first process, in every process."""
        planned, failed = self.folder / "plan.json", self.folder / "failed.json"
        if self.rank > 0:
            return _await(planned, failed)
        if self.size == 1:
            return make()
        self.folder.mkdir(parents=True)
        try:
            plan = make()
        except BaseException as error:
            write_text(failed, json.dumps(str(error) or type(error).__name__))
            raise
        write_text(planned, json.dumps(plan))
        return plan

    def shares(self, total: int) -> Iterator[int]:
        """The numbers below `total` of this process; every number goes to one process only.

        A number is drawn when it is needed, so the load is even when some videos are long.
        """
        if self.size == 1:
            yield from range(total)
            return
        while (number := self._next_number()) < total:
            yield number

    def _next_number(self) -> int:
        with _locked(self.folder / "next") as handle:
            number = int.from_bytes(os.pread(handle, 8, 0), "big")
            os.pwrite(handle, (number + 1).to_bytes(8, "big"), 0)
        return number

    def taken(self) -> int:
        """How many numbers have been drawn by all processes."""
        with _locked(self.folder / "next") as handle:
            return int.from_bytes(os.pread(handle, 8, 0), "big")

    def finish(self, report: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Record that this process is done; the last one gets the reports of all."""
        if self.size == 1:
            return [report]
        with _locked(self.folder / "end"):
            write_text(self.folder / f"finished-{self.rank}.json", json.dumps(report))
            files = sorted(self.folder.glob("finished-*.json"))
            if len(files) < self.size:
                return None
            return [json.loads(file.read_text()) for file in files]

    def remove_older(self) -> None:
        """Remove the folders of runs that were killed; no other run may be running."""
        stem = self.folder.name.removesuffix(f".{self.name}.team")
        for older in self.folder.parent.glob(f"{glob.escape(stem)}.*.team"):
            if older != self.folder:
                shutil.rmtree(older, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder, when the table is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def await_end(self) -> None:
        """Wait until the last process has completed the table."""
        while self.folder.exists():
            time.sleep(POLL_SECONDS)


def join_run(table: Path) -> SharedRun:
    """The processes of this launch; call it first, before anything that takes long."""
    name = f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:6]}"
    rank = 0
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        from videopipe.system.processes import Processes

        processes = Processes()
        name, rank = processes.share(name), processes.rank
    return SharedRun(name, table.with_name(f".{table.name}.{name}.team"), rank, size)


def _await(path: Path, failure: Path) -> dict[str, Any]:
    while not path.exists():
        if failure.exists():
            raise VideopipeError(json.loads(failure.read_text()))
        time.sleep(POLL_SECONDS)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold an exclusive lock on `path`; -> its file descriptor."""
    lock = FileLock(path)
    lock.acquire()
    try:
        yield lock.handle
    finally:
        lock.release()


class TableLock(FileLock):
    """Excludes other runs from a table while any process of this one is running.

    The first process takes it alone (`begin`), plans, and shares it with the others (`share`).
    """

    def __init__(self, path: Path, table: Path) -> None:
        super().__init__(path)
        self.table = table

    def begin(self, patience_seconds: float = 5.0) -> None:
        """Take the lock; waits a little, since processes that are being killed still hold it."""
        deadline = time.monotonic() + patience_seconds
        while not self.try_acquire():
            if time.monotonic() > deadline:
                self.release()
                raise VideopipeError(
                    f"another run is writing {self.table} at this moment; wait for it, end it, or "
                    "give another --out"
                )
            time.sleep(POLL_SECONDS)

    def share(self) -> None:
        """Share the lock with the other processes of the run."""
        self.acquire(shared=True)

    def clear(self) -> None:
        """Remove the file; processes that hold the lock keep it."""
        self.path.unlink(missing_ok=True)
