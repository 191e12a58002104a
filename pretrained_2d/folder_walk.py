"""Walk through folders; used by data sets, fingerprints and predictions."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path


def walk_folders(
    top: Path, *, on_error: Callable[[OSError], None] | None = None
) -> Iterator[tuple[Path, list[str], list[str]]]:
    """As `os.walk`, but follows links and visits every real folder once.

    Yields (folder, names of folders, names of files), names sorted. Names removed from the second
    list are not entered. Links to folders are followed after all real folders, so that a file
    reached both ways has its real path. The order depends on names only. A folder that cannot be
    read is reported to `on_error` and skipped.
    """
    visited: set[tuple[int, int]] = set()
    waiting: list[str] = [str(top)]  # a stack, the next folder last
    links: list[str] = []  # a queue
    while waiting or links:
        current = waiting.pop() if waiting else links.pop(0)
        try:
            status = os.stat(current)  # noqa: PTH116 - a Path per folder doubles the time
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(current) as opened:
                entries = sorted(opened, key=lambda entry: entry.name)
        except OSError as error:
            if on_error is not None:
                on_error(error)
            continue
        linked = {entry.name for entry in entries if entry.is_symlink()}
        folders = [entry.name for entry in entries if _is_folder(entry)]
        inside = set(folders)
        yield Path(current), folders, [e.name for e in entries if e.name not in inside]
        waiting += [os.path.join(current, n) for n in reversed(folders) if n not in linked]  # noqa: PTH118
        links += [os.path.join(current, name) for name in folders if name in linked]  # noqa: PTH118


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself counts as a file, whose reading will fail with a reason
        return False
