"""Find videos behind URLs (objects, folders, patterns, lists) and in tar shards."""

import glob
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Protocol
from urllib.parse import urlsplit

from videopipe.dataset.lists.arrow_lists import holds_bytes
from videopipe.dataset.lists.video_lists import LIST_SUFFIXES, read_list
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DataError
from videopipe.video.sources.addresses import ARROW_SUFFIXES, TAR_SUFFIX
from videopipe.video.sources.local_copy import local_copy
from videopipe.video.sources.remote import file_system, join_url, parent_url, retried
from videopipe.video.sources.tar_shards import members_of

ONE_PROCESS = ("memory",)  # protocols that other processes cannot read


class Listing(Protocol):
    """Where problems and names that are not videos are recorded."""

    problems: list[str]

    def accepts(self, path: str) -> bool:
        """Whether the name is that of a video."""


def expand_url(url: str, listing: Listing) -> Iterator[VideoRange]:
    """The videos that a URL names. One that ends like a video costs no request here."""
    protocol, _, rest = url.partition("://")
    if protocol.lower() in ("file", "local"):
        raise DataError(f"{url}: give files of this machine as plain paths, such as {rest}")
    if protocol.lower() in ONE_PROCESS:
        raise DataError(
            f"{url}: {protocol}:// can be read by one process only; decoders are others"
        )
    name = urlsplit(url).path
    suffix = PurePosixPath(name).suffix.lower()
    web = protocol.lower() in ("http", "https")
    if "*" in name if web else glob.has_magic(rest):
        yield from _objects(url, listing, lambda driver, path: driver.glob(path))
    elif suffix == TAR_SUFFIX:
        yield from expand_shard(url, listing)
    elif _is_table(url) and retried(url, lambda: holds_bytes(url)):
        yield from _in_bytes(url)
    elif suffix in LIST_SUFFIXES:
        yield from _listed(url)
    elif url.endswith("/") or (not suffix and not web):
        yield from _objects(url, listing, _below)
    else:
        yield VideoRange(url)


def expand_shard(shard: str, listing: Listing) -> Iterator[VideoRange]:
    """The members of a tar file that are videos, in their order."""
    names = [name for name in members_of(shard) if listing.accepts(name)]
    if not names:
        listing.problems.append(f"{shard}: the shard holds no videos")
    yield from (VideoRange(f"{shard}/{name}") for name in names)


def _objects(
    url: str, listing: Listing, find: Callable[[Any, str], list[str]]
) -> Iterator[VideoRange]:
    driver, path = file_system(url)
    found = sorted(retried(url, lambda: find(driver, path)))
    if not found:
        listing.problems.append(f"{url}: nothing is found there")
    for name in found:
        address = driver.unstrip_protocol(name)
        if PurePosixPath(urlsplit(address).path).suffix.lower() == TAR_SUFFIX:
            yield from expand_shard(address, listing)
        elif _is_table(address) and retried(address, partial(holds_bytes, address)):
            yield from _in_bytes(address)
        elif listing.accepts(urlsplit(address).path):
            yield VideoRange(address)


def _below(driver: Any, path: str) -> list[str]:
    found: list[str] = driver.find(path)
    return found


def _is_table(url: str) -> bool:
    return PurePosixPath(urlsplit(url).path).suffix.lower() in ARROW_SUFFIXES


def _in_bytes(url: str) -> Iterator[VideoRange]:
    """The rows of a table with videos as bytes; only its other columns are read here."""
    for entry in read_list(url, as_bytes=True)[1]:
        yield VideoRange(entry.path, entry.start_seconds, entry.end_seconds)


def _listed(url: str) -> Iterator[VideoRange]:
    """The entries of a list behind a URL; relative paths are relative to its folder."""
    folder = parent_url(url)
    with local_copy(url) as copy:
        for entry in read_list(copy)[1]:
            path = join_url(folder, entry.path)
            yield VideoRange(path, entry.start_seconds, entry.end_seconds, entry.frame_rate)
