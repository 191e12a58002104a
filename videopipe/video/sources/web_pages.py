"""Files of web sites, by the links of the pages that servers make for folders.

The driver leaves out folders whose page it cannot read; here no file is missing silently.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urljoin

from videopipe.errors import DataError, DecodeError
from videopipe.video.sources.remote import file_system, retried


def linked_files(url: str, note: Callable[[str], None]) -> list[str]:
    """The files below a folder, or those that match a pattern; folders that match count whole.

    `note` is called with the reason for every folder below that cannot be read. DataError when the
    first one cannot.
    """
    from fsspec.utils import glob_translate

    driver, _ = file_system(url)
    root, wanted, depth = url, None, None
    if "*" in url:
        root = url[: url.index("*")].rpartition("/")[0] + "/"
        wanted = re.compile(glob_translate(url.rstrip("/"))).match
        depth = None if "**" in url else url[len(root) :].rstrip("/").count("/") + 1
    seen = {root}

    def walk(
        folder: str, wanted: Callable[[str], object] | None, depth: int | None
    ) -> Iterator[str]:
        for link in _links(driver, folder):
            if link in seen or not link.startswith(root) or link.startswith(f"{folder}?"):
                continue  # of a column by which the page can be sorted, too
            seen.add(link)
            matches = wanted is None or bool(wanted(link.rstrip("/")))
            if matches and not link.endswith("/"):
                yield link
            elif link.endswith("/") and (matches or depth is None or depth > 1):
                try:
                    yield from walk(link, None if matches else wanted, depth and depth - 1)
                except DecodeError as error:
                    note(f"{link}: folder cannot be read ({error.reason})")

    try:
        return list(walk(root, wanted, depth))
    except DecodeError as error:
        raise DataError(
            f"{root}: {error.reason}; folders and patterns of a web site are read from the pages "
            "that its server makes for folders; where there are none, give the URLs of the videos"
        ) from None


def _links(driver: Any, folder: str) -> list[str]:
    """The addresses that a page links to, sorted; those of folders end with a slash."""
    links = retried(folder, lambda: driver.ls(folder, detail=False))
    return sorted({urljoin(folder, _relative(folder, link)) for link in links})


def _relative(folder: str, link: str) -> str:
    """The link as it stands in the page: the driver puts the folder before it."""
    return link[len(folder) :] if link.startswith(folder) else link
