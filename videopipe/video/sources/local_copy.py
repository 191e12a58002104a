"""The bytes of any source as a file that every decoding library can open."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from videopipe.errors import DataError, DecodeError
from videopipe.system.pool_worker import heartbeat
from videopipe.video.sources.addresses import (
    ARROW_SUFFIXES,
    is_remote,
    is_remote_folder,
    split_member,
)
from videopipe.video.sources.byte_columns import row_bytes
from videopipe.video.sources.failures import NO_SUCH_OBJECT
from videopipe.video.sources.remote import copy_object, describe, retried
from videopipe.video.sources.remote_frames import copied_frames
from videopipe.video.sources.scratch import scratch_file
from videopipe.video.sources.tar_shards import place_of

LARGEST_IN_MEMORY_BYTES = 256 * 2**20  # of members of shards on this machine
COPIED_AT_ONCE_BYTES = 16 * 2**20
NO_SUCH_FILE = "no such file"


@contextmanager
def local_copy(path: str) -> Iterator[Path]:
    """A file with the content of the source, for as long as the context lasts.

    A file of this machine is given as it is. An object is copied to the scratch folder, and so are
    the images of a folder behind a URL (a URL with a slash at its end). A member of
    a local shard is copied to memory where the system has files in memory (Linux) and it is not
    very large. Raises DecodeError with the reason.
    """
    try:
        found = split_member(path)
        if found is not None:
            with _member(path, *found) as copy:
                yield copy
        elif is_remote_folder(path):
            with copied_frames(path) as folder:
                yield folder
        elif is_remote(path):
            size = retried(path, lambda: describe(path).size_bytes)
            with scratch_file(path, _suffix(path), size or 0) as copy:
                with copy.open("r+b") as file:
                    copy_object(path, file)
                yield copy
        else:
            yield Path(path)
    except DataError as error:
        if isinstance(error, DecodeError):
            raise
        raise DecodeError(path, str(error)) from None


def is_gone(reason: str) -> bool:
    """Whether a failure means that there is no such object or member."""
    return reason.startswith((NO_SUCH_OBJECT, NO_SUCH_FILE))


@contextmanager
def _member(path: str, shard: str, name: str) -> Iterator[Path]:
    if PurePosixPath(shard).suffix.lower() in ARROW_SUFFIXES:
        with _row(path, shard, name) as copy:
            yield copy
        return
    start, size = place_of(shard, name)
    if is_remote(shard):
        with scratch_file(path, _suffix(name), size) as copy:
            with copy.open("r+b") as file:
                copy_object(shard, file, start, size)
            yield copy
        return
    with Path(shard).open("rb") as source:
        source.seek(start)
        if hasattr(os, "memfd_create") and size <= LARGEST_IN_MEMORY_BYTES:
            with open(os.memfd_create("member"), "r+b") as memory:  # noqa: PTH123 - a descriptor
                _copy(path, source, memory, size)
                yield Path(f"/proc/self/fd/{memory.fileno()}")
            return
        with scratch_file(path, _suffix(name), size) as copy:
            with copy.open("r+b") as file:
                _copy(path, source, file, size)
            yield copy


@contextmanager
def _row(path: str, table: str, name: str) -> Iterator[Path]:
    """The bytes of a row of a Parquet or Arrow file."""
    content = row_bytes(table, name)
    if hasattr(os, "memfd_create") and content.size <= LARGEST_IN_MEMORY_BYTES:
        with open(os.memfd_create("row"), "r+b") as memory:  # noqa: PTH123 - a descriptor
            memory.write(content)
            memory.flush()
            del content
            yield Path(f"/proc/self/fd/{memory.fileno()}")
        return
    with scratch_file(path, _suffix(name), content.size) as copy:
        copy.write_bytes(content)
        yield copy


def _copy(path: str, source: IO[bytes], target: IO[bytes], size: int) -> None:
    while target.tell() < size:
        block = source.read(min(COPIED_AT_ONCE_BYTES, size - target.tell()))
        if not block:
            raise DecodeError(path, f"the shard ends after {target.tell()} of its {size} bytes")
        target.write(block)
        heartbeat()
    target.flush()


def _suffix(path: str) -> str:
    """`.mp4`; some containers are recognised by the name of their file only."""
    name = urlsplit(path).path if is_remote(path) else path
    suffix = PurePosixPath(name).suffix
    return suffix if suffix[1:].isalnum() and suffix.isascii() else ""
