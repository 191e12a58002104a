"""The results in a runs folder, and which pipelines or running processes still need them.

A result is needed when the last run of a pipeline names it (`runs/<pipeline>/run.json`), when a
needed result was made from it or names its folder in its settings, or when a run in progress may
read it. Every run registers the results it may read in a locked file below `.locks/runs/`; the lock
ends with the process, also when it is killed.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videopipe.errors import DataError
from videopipe.pipeline.results import COMPLETE, STARTED, read_record
from videopipe.system.lock import FileLock, locked

PARTIAL, REMOVED = ".partial", ".removed"
RUN, PIPELINE = "run.json", "pipeline.yaml"


@dataclass(frozen=True)
class StoredResult:
    """A result of a runs folder, complete or not."""

    folder: Path
    use: str  # the kind of stage
    complete: bool
    size_bytes: int
    modified: float  # seconds since 1970
    pipelines: Sequence[str] = ()  # that need it
    in_use: bool = False  # a process makes it or may read it now

    @property
    def needed(self) -> bool:
        """Whether a pipeline or a process needs it."""
        return bool(self.pipelines) or self.in_use


@dataclass
class _Folder:
    """A result folder with its record, before it is known what needs it."""

    path: Path
    record: Mapping[str, Any]
    text: str  # of the record; it may name other results
    complete: bool
    pipelines: set[str] = field(default_factory=set)
    in_use: bool = False

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(PARTIAL)


@contextmanager
def registered(runs: Path, names: Sequence[str]) -> Iterator[None]:
    """Keep the results with these folder names while the body runs."""
    try:
        with locked(_registry(runs), on_wait=lambda _holder: None):
            lock = FileLock(runs / ".locks" / "runs" / uuid.uuid4().hex)
            lock.acquire()
            os.pwrite(lock.handle, json.dumps(list(names)).encode(), 0)
    except OSError:  # a read-only folder of complete results can be used
        yield
        return
    try:
        yield
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()


def list_results(runs: Path) -> list[StoredResult]:
    """Every result, the newest first, with its size, its age and the pipelines that need it."""
    folders = _folders(runs)
    _mark(runs, folders)
    seen: set[tuple[int, int]] = set()  # a file with several links takes its space once
    found = [
        StoredResult(
            folder=one.path,
            use=str(one.record.get("use", "")),
            complete=one.complete,
            size_bytes=_size_bytes(one.path, seen),
            modified=_modified(one.path),
            pipelines=tuple(sorted(one.pipelines)),
            in_use=one.in_use,
        )
        for one in folders
    ]
    return sorted(found, key=lambda result: (-result.modified, result.folder.name))


@contextmanager
def no_new_runs(runs: Path) -> Iterator[None]:
    """No run begins while the body decides what to remove and removes it."""
    with locked(_registry(runs), on_wait=lambda _holder: None):
        yield


def remove(result: StoredResult) -> bool:
    """Remove an unneeded result; False when a process has taken it in the meantime."""
    name = result.folder.name.removesuffix(PARTIAL)
    lock = FileLock(result.folder.parent / ".locks" / name)
    if not lock.try_acquire():
        lock.release()
        return False
    try:
        # Renamed first, so that a partly removed result is not taken for a complete one.
        beside = result.folder.with_name(f".{result.folder.name}{REMOVED}")
        shutil.rmtree(beside, ignore_errors=True)
        result.folder.rename(beside)
        shutil.rmtree(beside)
        lock.path.unlink(missing_ok=True)
    finally:
        lock.release()
    return True


def leftovers(runs: Path) -> list[Path]:
    """Hidden folders of a removal that was interrupted."""
    return sorted(runs.glob(f".*{REMOVED}"))


def _registry(runs: Path) -> Path:
    return runs / ".locks" / ".registry"


def _folders(runs: Path) -> list[_Folder]:
    if not runs.is_dir():
        raise DataError(f"{runs}: no such folder; give the folder of the results with --runs")
    found = []
    for path in sorted(runs.iterdir()):
        if path.name.startswith(".") or not path.is_dir():
            continue
        for name in (COMPLETE, STARTED):
            if (record := read_record(path / name)) is not None and "fingerprint" in record:
                found.append(_Folder(path, record, json.dumps(record), name == COMPLETE))
                break
    return found


def _mark(runs: Path, folders: Sequence[_Folder]) -> None:
    """Note for every folder which pipelines need it, and whether a process uses it."""
    by_name: dict[str, list[_Folder]] = {}
    for one in folders:
        by_name.setdefault(one.name, []).append(one)
    for pipeline, text in _pipelines(runs):
        for one in _with_sources(by_name, text):
            one.pipelines.add(pipeline)
    running = " ".join(_registered(runs))
    for one in _with_sources(by_name, running):
        one.in_use = True
    for one in folders:
        if _is_locked(runs / ".locks" / one.name):
            for source in _with_sources(by_name, one.name):
                source.in_use = True


def _pipelines(runs: Path) -> Iterator[tuple[str, str]]:
    """The name of every pipeline that ran here, and the text that names its results."""
    for path in sorted(runs.iterdir()):
        if not ((path / RUN).is_file() or (path / PIPELINE).is_file()):
            continue
        if (record := read_record(path / RUN)) is None:
            raise DataError(
                f"{path / RUN} cannot be read, so it is not known which results '{path.name}' "
                f"needs; run the pipeline again, or delete {path}"
            )
        settings = path / PIPELINE
        text = settings.read_text() if settings.is_file() else ""
        yield path.name, json.dumps(record) + text


def _with_sources(by_name: Mapping[str, list[_Folder]], text: str) -> list[_Folder]:
    """The folders that a text names, those that their records name, and so on."""
    found: dict[str, list[_Folder]] = {}
    texts = [text]
    while texts:
        text = texts.pop()
        for name in [name for name in by_name if name not in found and name in text]:
            found[name] = by_name[name]
            texts += [one.text for one in by_name[name]]
    return [one for folders in found.values() for one in folders]


def _registered(runs: Path) -> Iterator[str]:
    """The folder names that runs in progress have registered; files of dead runs are removed."""
    for path in sorted((runs / ".locks" / "runs").glob("*")):
        if _is_locked(path):
            yield path.read_text()
        else:
            path.unlink(missing_ok=True)


def _is_locked(path: Path) -> bool:
    if not path.is_file():
        return False
    lock = FileLock(path)
    try:
        return not lock.try_acquire(shared=True)
    finally:
        lock.release()


def _size_bytes(folder: Path, seen: set[tuple[int, int]]) -> int:
    total = 0
    for below, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(below, name))  # noqa: PTH118 - a million files
            except OSError:
                continue
            if (key := (status.st_dev, status.st_ino)) not in seen:
                seen.add(key)
                total += status.st_size
    return total


def _modified(folder: Path) -> float:
    for name in (COMPLETE, STARTED):
        if (folder / name).is_file():
            return (folder / name).stat().st_mtime
    return time.time()
