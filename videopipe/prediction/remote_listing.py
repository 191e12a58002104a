"""Find videos behind URLs (objects, folders, patterns, lists) and in tar shards."""

import glob
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Protocol
from urllib.parse import urlsplit

from videopipe.dataset.layouts.listing import VIDEO_SUFFIXES
from videopipe.dataset.layouts.lists import kinetics_clip
from videopipe.dataset.lists.arrow_lists import holds_bytes
from videopipe.dataset.lists.video_lists import LIST_SUFFIXES, ListEntry, read_list
from videopipe.dataset.lists.video_range import VideoRange
from videopipe.errors import DataError
from videopipe.video.frame_folder import IMAGE_SUFFIXES, frame_names
from videopipe.video.sources.addresses import (
    ARROW_SUFFIXES,
    COMPRESSED_TAR,
    TAR_SUFFIX,
    WEB,
    is_in_one_process,
    is_remote,
    names_folder,
    protocol_of,
)
from videopipe.video.sources.local_copy import local_copy
from videopipe.video.sources.remote import (
    check_driver,
    file_system,
    join_url,
    parent_url,
    retried,
)
from videopipe.video.sources.tar_shards import DECOMPRESS, members_of
from videopipe.video.sources.web_pages import linked_files


class Listing(Protocol):
    """Where problems and names that are not videos are recorded."""

    problems: list[str]
    frame_rate: float | None  # of folders of frames
    frame_folders: int  # that were skipped for want of a rate

    def accepts(self, path: str) -> bool:
        """Whether the name is that of a video."""


def expand_url(url: str, listing: Listing) -> Iterator[VideoRange]:
    """The videos that a URL names. One that ends like a video costs no request here."""
    protocol, rest = protocol_of(url), url.partition("://")[2]
    if protocol in ("file", "local"):
        raise DataError(f"{url}: give files of this machine as plain paths, such as {rest}")
    check_driver(url)
    if not rest.strip("/") and not is_in_one_process(url):
        raise DataError(f"{url}: names nothing; expected s3://BUCKET/videos/ or https://HOST/a.mp4")
    if is_in_one_process(url):
        url = _own_url(url)
    name = urlsplit(url).path
    suffix = PurePosixPath(name).suffix.lower()
    if "*" in name if protocol in WEB else glob.has_magic(rest):
        yield from _objects(url, listing, _matching)
    elif COMPRESSED_TAR.search(name):
        raise DataError(f"{url}: {DECOMPRESS}")
    elif suffix == TAR_SUFFIX:
        yield from expand_shard(url, listing)
    elif _is_table(url) and retried(url, lambda: holds_bytes(url)):
        yield from _in_bytes(url)
    elif suffix in LIST_SUFFIXES:
        yield from _listed(url, listing.frame_rate)
    elif names_folder(url):
        yield from _objects(url, listing, _below)
    else:
        yield VideoRange(url)


def remote_video(
    url: str, start: float | None = None, end: float | None = None, rate: float | None = None
) -> VideoRange:
    """The video of a list entry with a URL: with a rate, a folder is one of frames."""
    if rate is None or not names_folder(url):
        return VideoRange(url, start, end)
    return VideoRange(f"{url.rstrip('/')}/", start, end, rate)


def expand_shard(shard: str, listing: Listing) -> Iterator[VideoRange]:
    """The members of a tar file that are videos, in their order."""
    names = [name for name in members_of(shard) if listing.accepts(name)]
    if not names:
        listing.problems.append(f"{shard}: the shard holds no videos")
    yield from (VideoRange(f"{shard}/{name}") for name in names)


def _own_url(url: str) -> str:
    """A URL of memory://, written in one way; DataError when there are no objects at all."""
    driver, path = file_system(url)
    if not driver.find(""):
        raise DataError(
            f"{url}: memory:// holds objects of this process, and there are none; it is for Python "
            "programs that write objects there before they predict"
        )
    return f"memory://{path.lstrip('/')}" + "/" * url.endswith("/")


def _objects(
    url: str, listing: Listing, find: Callable[[Any, str], list[str]]
) -> Iterator[VideoRange]:
    driver, path = file_system(url)
    if protocol_of(url) in WEB:
        found = sorted(linked_files(url, listing.problems.append))
    else:
        found = sorted(retried(url, lambda: find(driver, path)))
    if not found:
        listing.problems.append(f"{url}: nothing is found there")
    folders = _frame_folders(found)
    begun: set[str] = set()
    for name in found:
        address = driver.unstrip_protocol(name)
        if is_in_one_process(address):
            address = address.replace(":///", "://", 1)
        folder, _, last = name.rpartition("/")
        if folder in folders and _suffix(last) in IMAGE_SUFFIXES:
            if folder not in begun and listing.frame_rate is not None:
                yield remote_video(f"{parent_url(address)}/", rate=listing.frame_rate)
            listing.frame_folders += folder not in begun and listing.frame_rate is None
            begun.add(folder)
        elif _suffix(urlsplit(address).path) == TAR_SUFFIX:
            yield from expand_shard(address, listing)
        elif _is_table(address) and retried(address, partial(holds_bytes, address)):
            yield from _in_bytes(address)
        elif listing.accepts(urlsplit(address).path):
            yield VideoRange(address)


def _frame_folders(names: Sequence[str]) -> set[str]:
    """The folders with numbered images of one sequence and no videos."""
    images, with_videos = defaultdict[str, list[str]](list), set()
    for name in names:
        folder, _, last = name.rpartition("/")
        if _suffix(last) in IMAGE_SUFFIXES:
            images[folder].append(last)
        elif _suffix(last) in VIDEO_SUFFIXES:
            with_videos.add(folder)
    return {one for one in images if one not in with_videos and frame_names(images[one])}


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def _below(driver: Any, path: str) -> list[str]:
    found: list[str] = driver.find(path)
    return found


def _matching(driver: Any, pattern: str) -> list[str]:
    """The objects that match, and those below folders that match."""
    found: set[str] = set()
    for name, about in driver.glob(pattern, detail=True).items():
        found.update(driver.find(name) if about["type"] == "directory" else [name])
    return list(found)


def _is_table(url: str) -> bool:
    return _suffix(urlsplit(url).path) in ARROW_SUFFIXES


def _in_bytes(url: str) -> Iterator[VideoRange]:
    """The rows of a table with videos as bytes; only its other columns are read here."""
    for entry in read_list(url, as_bytes=True)[1]:
        yield VideoRange(entry.path, entry.start_seconds, entry.end_seconds)


def _listed(url: str, rate: float | None) -> Iterator[VideoRange]:
    """The entries of a list behind a URL; relative paths are relative to its folder."""
    folder = parent_url(url)
    by_stem: dict[str, str] | None = None
    with local_copy(url) as copy:
        for entry in read_list(copy)[1]:
            if entry.youtube_id:
                by_stem = _by_stem(folder) if by_stem is None else by_stem
                yield _kinetics(entry, folder, by_stem)
                continue
            path, times = join_url(folder, entry.path), (entry.start_seconds, entry.end_seconds)
            if is_remote(path):
                yield remote_video(path, *times, entry.frame_rate or rate)
            else:
                yield VideoRange(path, *times, entry.frame_rate)


def _by_stem(folder: str) -> dict[str, str]:
    """Name without suffix -> URL, of all videos below."""
    driver, path = file_system(f"{folder}/")
    found = sorted(retried(folder, lambda: _below(driver, path)), reverse=True)
    videos = (name for name in found if _suffix(name) in VIDEO_SUFFIXES)
    return {PurePosixPath(name).stem: driver.unstrip_protocol(name) for name in videos}


def _kinetics(entry: ListEntry, folder: str, by_stem: dict[str, str]) -> VideoRange:
    start, end = entry.start_seconds, entry.end_seconds
    url, name, trimmed = kinetics_clip(by_stem, entry.youtube_id or "", start, end)
    return (
        VideoRange(url)
        if url and trimmed
        else VideoRange(url or f"{folder}/{name}.mp4", start, end)
    )
