"""Objects that only this process has (`memory://`), as files that decoding processes can open.

Each is written to an anonymous file in memory, which other processes of the same user open below
/proc. Where the system has no such files (macOS), it is a file in the scratch folder.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import IO, Any, Self

from videopipe.errors import DataError, DecodeError
from videopipe.video.sources.addresses import (
    ARROW_SUFFIXES,
    is_in_one_process,
    is_remote_folder,
    split_member,
)
from videopipe.video.sources.byte_columns import row_bytes
from videopipe.video.sources.remote import file_system, retried
from videopipe.video.sources.scratch import scratch_folder
from videopipe.video.sources.tar_shards import place_of


@dataclass(frozen=True)
class OwnCopy:
    """Where another process finds the content of an object, or why it cannot be read."""

    file: str = ""
    failure: str = ""

    def opened(self, path: str) -> Path:
        """The file; DecodeError with the reason of a failure."""
        if self.failure:
            raise DecodeError(path, self.failure)
        return Path(self.file)


class OwnObjects:
    """The copies of the objects that are being decoded; each exists until it is released."""

    def __init__(self) -> None:
        self._files: dict[int, IO[bytes]] = {}

    def copy(self, key: int, path: str) -> OwnCopy | None:
        """Copy an object of this process, to be released with the same key.

        None for a path that other processes can read themselves.
        """
        if not is_in_one_process(path):
            return None
        try:
            content = _content(path)
        except DataError as error:
            return OwnCopy(failure=error.reason if isinstance(error, DecodeError) else str(error))
        self._files[key] = file = _new_file()
        file.write(content)
        file.flush()
        if isinstance(file.name, str):
            return OwnCopy(file.name)
        return OwnCopy(f"/proc/{os.getpid()}/fd/{file.fileno()}")

    def release(self, key: int) -> None:
        """Remove the copy, if there is one."""
        if key in self._files:
            self._files.pop(key).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for key in list(self._files):
            self.release(key)


def _content(path: str) -> Any:
    """The bytes of an object, of a member of a shard, or of a row of a table."""
    if is_remote_folder(path):
        raise DecodeError(path, "folders of frames are not read from memory://; write a video")
    found = split_member(path)
    if found is not None and PurePosixPath(found[0]).suffix.lower() in ARROW_SUFFIXES:
        return row_bytes(*found)
    start, end, stored_in = None, None, path
    if found is not None:
        stored_in = found[0]
        start, size = place_of(*found)
        end = start + size
    driver, place = file_system(stored_in)
    return retried(stored_in, lambda: driver.cat_file(place, start, end))


def _new_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("object"), "w+b")  # noqa: PTH123 - a descriptor
    file: Any = NamedTemporaryFile(dir=scratch_folder())  # noqa: SIM115 - until it is released
    fcntl.flock(file, fcntl.LOCK_EX)  # files of the folder without a lock are removed
    return file
