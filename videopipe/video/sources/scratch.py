"""Files that exist for as long as a video is decoded, in one folder of bounded size.

Each file is locked by the process that uses it. The lock of a killed process is released, and the
next process that needs a file removes all files without a lock, so no manual cleaning is needed.

VIDEOPIPE_SCRATCH names the folder (default: in the system's folder for temporary files), and
VIDEOPIPE_SCRATCH_GIGABYTES bounds it (default: 32).
"""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from videopipe.errors import DecodeError
from videopipe.system.lock import FileLock, locked
from videopipe.system.pool_worker import heartbeat

DEFAULT_GIGABYTES = 32.0
POLL_SECONDS = 0.1
LOCK_FILE = ".lock"
FOLDER_SUFFIX = ".folder"  # of a folder; the file of the same name without it holds its lock


def scratch_folder() -> Path:
    """The folder; made when it is missing."""
    default = Path(tempfile.gettempdir()) / f"videopipe-scratch-{os.getuid()}"
    folder = Path(os.environ.get("VIDEOPIPE_SCRATCH") or default)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def limit_bytes() -> int:
    """The largest size of the folder."""
    text = os.environ.get("VIDEOPIPE_SCRATCH_GIGABYTES") or str(DEFAULT_GIGABYTES)
    try:
        return round(float(text) * 2**30)
    except ValueError:
        raise DecodeError(
            "", f"VIDEOPIPE_SCRATCH_GIGABYTES is {text!r}; expected a number of gigabytes"
        ) from None


@contextmanager
def scratch_file(source: str, suffix: str, size_bytes: int) -> Iterator[Path]:
    """An empty file with room for `size_bytes`; waits for other processes when there is none."""
    if size_bytes > limit_bytes():
        raise DecodeError(
            source,
            f"has {size_bytes / 2**30:.3g} GiB; the scratch folder may hold "
            f"{limit_bytes() / 2**30:.3g} GiB (VIDEOPIPE_SCRATCH_GIGABYTES)",
        )
    folder = scratch_folder()
    while (reserved := _reserve(folder, suffix, size_bytes)) is None:
        heartbeat()
        time.sleep(POLL_SECONDS)
    try:
        yield reserved.path
    finally:
        reserved.path.unlink(missing_ok=True)
        reserved.release()


@contextmanager
def scratch_subfolder(source: str, size_bytes: int) -> Iterator[Path]:
    """As `scratch_file`, an empty folder."""
    with scratch_file(source, "", size_bytes) as file:
        folder = _folder_of(file)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _folder_of(file: Path) -> Path:
    return file.with_name(f"{file.name}{FOLDER_SUFFIX}")


def _reserve(folder: Path, suffix: str, size_bytes: int) -> FileLock | None:
    """A locked file of this size (sparse), which counts from now on; None when there is no room."""
    with locked(folder / LOCK_FILE, on_wait=lambda _: None):
        used = sum(_size_if_used(path) for path in folder.iterdir() if _is_copy(path))
        if used + size_bytes > limit_bytes():
            return None
        file = FileLock(folder / f"{uuid.uuid4().hex}{suffix}")
        file.acquire()
        os.fchmod(file.handle, 0o600)
        os.truncate(file.handle, size_bytes)
        return file


def _is_copy(path: Path) -> bool:
    return path.name != LOCK_FILE and not path.is_dir()


def _size_if_used(path: Path) -> int:
    """The size of a file that a process has locked; any other is removed."""
    lock = FileLock(path)
    try:
        with path.open("rb") as file:
            if not lock.try_acquire():
                return os.fstat(file.fileno()).st_size
            shutil.rmtree(_folder_of(path), ignore_errors=True)
            path.unlink(missing_ok=True)
    except FileNotFoundError:  # removed by its owner in the meantime
        pass
    finally:
        lock.release()
    return 0
