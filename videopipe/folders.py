"""Walking a tree of folders that may have links in it."""

import os
from collections.abc import Iterator
from pathlib import Path


def walk_folders(top: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """As `os.walk`, through links as well; a link to a folder that it lies in is not followed.

    Folders come sorted by name. What is removed from the second value is not entered.
    """
    for name, folders, files in os.walk(top, followlinks=True):
        parent = Path(name)
        folders[:] = sorted(folder for folder in folders if not _leads_back(top, parent / folder))
        yield parent, folders, files


def _leads_back(top: Path, path: Path) -> bool:
    if not path.is_symlink():
        return False
    target = os.path.realpath(path)
    way = [folder for folder in path.parents if folder == top or top in folder.parents]
    return any(os.path.realpath(folder) == target for folder in way)
