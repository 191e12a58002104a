"""Files that exist for as long as a video is decoded, in one folder of bounded size.

Each file is locked by the process that uses it. The lock of a killed process is released, and the
next process that needs a file removes all files without a lock, so no manual cleaning is needed.

VIDEOPIPE_SCRATCH names the folder (default: in the system's folder for temporary files), and
VIDEOPIPE_SCRATCH_GIGABYTES bounds it (default: 32).
"""

import fcntl
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from videopipe.errors import DecodeError
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
    path, handle = reserved
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


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


def _reserve(folder: Path, suffix: str, size_bytes: int) -> tuple[Path, int] | None:
    """A locked file of this size (sparse), which counts from now on; None when there is no room."""
    with (folder / LOCK_FILE).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        used = sum(_size_if_used(path) for path in folder.iterdir() if _is_copy(path))
        if used + size_bytes > limit_bytes():
            return None
        path = folder / f"{uuid.uuid4().hex}{suffix}"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.truncate(handle, size_bytes)
        return path, handle


def _is_copy(path: Path) -> bool:
    return path.name != LOCK_FILE and not path.is_dir()


def _size_if_used(path: Path) -> int:
    """The size of a file that a process has locked; any other is removed."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return os.fstat(file.fileno()).st_size
            shutil.rmtree(_folder_of(path), ignore_errors=True)
            path.unlink(missing_ok=True)
    except FileNotFoundError:  # removed by its owner in the meantime
        pass
    return 0
