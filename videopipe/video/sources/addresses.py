"""Kinds of paths of a video: a file, an object behind a URL, a member of a tar shard.

videos/a.mp4                 a file, or a folder of frames
s3://bucket/a.mp4            an object; any protocol of fsspec
s3://bucket/frames/          a folder of frames behind a URL, which ends with a slash
shards/train-00.tar/a.mp4    a member of a tar file; the shard may be behind a URL too
films.parquet/12-a.mp4       the bytes in row 12 of a Parquet or Arrow file
"""

import os
import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
TAR_SUFFIX = ".tar"
ARROW_SUFFIXES = frozenset({".parquet", ".arrow", ".feather"})
COMPRESSED_TAR = re.compile(r"\.(?:tar\.(?:gz|bz2|xz|zst)|tgz|tbz2?|txz|tzst)$", re.IGNORECASE)
WEB = ("http", "https")  # protocols without folders, except for pages of links
IN_ONE_PROCESS = "memory"  # the protocol of objects that other processes cannot read
STORED_IN = re.compile(r"\.(?:tar|parquet|arrow|feather)(?=/)", re.IGNORECASE)


def is_remote(path: str) -> bool:
    """Whether the path is a URL."""
    return "://" in path and URL.match(path) is not None


def protocol_of(url: str) -> str:
    """`s3` of s3://bucket/a.mp4."""
    return url.partition("://")[0].lower()


def is_in_one_process(path: str) -> bool:
    """Whether only the process that has put the object there can read it."""
    return is_remote(path) and protocol_of(path) == IN_ONE_PROCESS


def is_remote_folder(path: str) -> bool:
    """Whether the path is that of a folder behind a URL."""
    return path.endswith("/") and is_remote(path)


def names_folder(url: str) -> bool:
    """Whether a URL that a user wrote is that of a folder: no suffix, or a slash at its end."""
    suffix = PurePosixPath(urlsplit(url).path).suffix
    return url.endswith("/") or (not suffix and protocol_of(url) not in WEB)


def split_member(path: str) -> tuple[str, str] | None:
    """(container, member) of a path below a tar, Parquet or Arrow file; None for anything else."""
    for found in STORED_IN.finditer(path):
        container = path[: found.end()]
        if is_remote(container) or os.path.isfile(container):  # noqa: PTH113 - for every video
            return container, path[found.end() + 1 :]
    return None


def is_plain(path: str) -> bool:
    """Whether the path is that of a file or folder of this machine, also of a missing one."""
    return not is_remote(path) and split_member(path) is None
