"""Atomic files and folders: write beside, fsync, rename."""

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LEFTOVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.(?P<state>partial|older)")


@contextmanager
def new_file(path: Path, beside: Path | None = None) -> Iterator[BinaryIO]:
    """A file that takes the name `path` (replacing an older one) when the body ends without error.

    Until then it is called `beside`, by default `.NAME.partial`; only one process may write it.
    """
    beside = beside or path.with_name(f".{path.name}.partial")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by `content` atomically, also when the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_file(path, path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")) as file:
        file.write(content)


def write_together(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Replace several files of a folder: all are written beside first, then renamed in order."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex[:8]
    beside = {name: folder / f".{name}.{mark}.partial" for name in contents}
    try:
        for name, content in contents.items():
            with beside[name].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for name, partial in beside.items():
            partial.replace(folder / name)
    finally:
        for partial in beside.values():
            partial.unlink(missing_ok=True)
    sync_folder(folder)


def write_text(path: Path, content: str) -> None:
    """As `write_bytes`, in UTF-8."""
    write_bytes(path, content.encode())


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder beside `path`; it takes the name `path` (replacing an older one) at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    beside.mkdir()
    try:
        yield beside
        for file in beside.rglob("*"):
            if file.is_file():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        sync_folder(beside)
        replace_folder(beside, path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def replace_folder(beside: Path, path: Path) -> None:
    """Rename the complete folder `beside` to `path`, replacing an older one."""
    older = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.older")
    if path.exists():
        path.rename(older)
    beside.rename(path)
    sync_folder(path.parent)
    shutil.rmtree(older, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove partial files and folders below `folder` that killed processes left.

    A folder that was being replaced gets its name back.
    """
    for path in sorted(folder.rglob(".*")):
        left = LEFTOVER.fullmatch(path.name)
        if left is None or not path.exists():
            continue
        original = path.with_name(left["name"])
        if left["state"] == "older" and not original.exists():
            path.rename(original)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` durable, where the platform can open folders."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
