"""Several processes on one table: who is who, and who does which video.

`accelerate launch` starts the processes. They agree on a name for the run, and after that talk
through files only: a process may be hours behind another without a collective call timing out.
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

POLL_SECONDS = 0.05


class Team:
    """The processes that work on one table; alone, a team of one.

    Its folder, a hidden one beside the table, holds what they have to tell each other.
    """

    def __init__(self, run: str, folder: Path, rank: int = 0, size: int = 1) -> None:
        self.run = run  # sorts by time of start
        self.folder, self.rank, self.size = folder, rank, size
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))

    def plan(self, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What the first process makes, in every process; its failure, too, is everybody's."""
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
        """The numbers below `total` that are for this process, each given to one process only.

        A number is drawn when it is wanted, so a process busy with a long video leaves the rest to
        the others.
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
        """Say that this process is done; the last one gets the reports of all."""
        if self.size == 1:
            return [report]
        with _locked(self.folder / "end"):
            write_text(self.folder / f"finished-{self.rank}.json", json.dumps(report))
            files = sorted(self.folder.glob("finished-*.json"))
            if len(files) < self.size:
                return None
            return [json.loads(file.read_text()) for file in files]

    def clean_up(self) -> None:
        """Remove the folders of runs that were killed; no other run may be at work."""
        stem = self.folder.name.removesuffix(f".{self.run}.team")
        for leaving in self.folder.parent.glob(f"{glob.escape(stem)}.*.team"):
            if leaving != self.folder:
                shutil.rmtree(leaving, ignore_errors=True)

    def disband(self) -> None:
        """Take the folder away, when the table is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def await_end(self) -> None:
        """Wait until the last process has completed the table."""
        while self.folder.exists():
            time.sleep(POLL_SECONDS)


def join_team(table: Path) -> Team:
    """The processes of this launch; to be called at once, before anything that takes long."""
    run = f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:6]}"
    rank = 0
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size > 1:
        from videopipe.processes import Processes

        processes = Processes()
        run, rank = processes.share(run), processes.rank
    return Team(run, table.with_name(f".{table.name}.{run}.team"), rank, size)


def _await(path: Path, failure: Path) -> dict[str, Any]:
    while not path.exists():
        if failure.exists():
            raise VideopipeError(json.loads(failure.read_text()))
        time.sleep(POLL_SECONDS)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold the file `path` alone, waiting for it; the system lets go of it when a process dies."""
    import fcntl

    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


class Membership:
    """Keeps other runs away from a table for as long as any process of this one lives.

    The first process takes the file alone (`begin`), plans, and then shares it (`share`); the
    others join. The system lets go when a process dies, so nothing stale can be left.
    """

    def __init__(self, path: Path, whose: Path) -> None:
        self.path, self.whose = path, whose
        self._handle: int | None = None

    def begin(self, patience_seconds: float = 5.0) -> None:
        """Alone, or `VideopipeError`; some patience, as processes being killed take a moment."""
        import fcntl

        give_up = time.monotonic() + patience_seconds
        while True:
            self._open()
            try:
                fcntl.flock(self._handle or 0, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > give_up:
                    self.end()
                    raise VideopipeError(
                        f"another run is writing {self.whose} at this moment; wait for it, end "
                        "it, or give another --out"
                    ) from None
                time.sleep(POLL_SECONDS)
                continue
            if self._still_named():  # a run that just ended takes its folder away
                return

    def share(self) -> None:
        """Let the other processes of the team in."""
        import fcntl

        if self._handle is None:
            self._open()
        fcntl.flock(self._handle or 0, fcntl.LOCK_SH)

    def clear(self) -> None:
        """Remove the file; whoever holds it keeps what is left of it."""
        self.path.unlink(missing_ok=True)

    def end(self) -> None:
        """Let go."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> None:
        self.end()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)

    def _still_named(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._handle or 0), self.path.stat())
        except FileNotFoundError:
            return False
