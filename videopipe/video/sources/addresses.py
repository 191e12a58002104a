"""Kinds of paths of a video: a file, an object behind a URL, a member of a tar shard.

videos/a.mp4                 a file, or a folder of frames
s3://bucket/a.mp4            an object; any protocol of fsspec
shards/train-00.tar/a.mp4    a member of a tar file; the shard may be behind a URL too
films.parquet/12-a.mp4       the bytes in row 12 of a Parquet or Arrow file
"""

import os
import re

URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
TAR_SUFFIX = ".tar"
ARROW_SUFFIXES = frozenset({".parquet", ".arrow", ".feather"})
STORED_IN = re.compile(r"\.(?:tar|parquet|arrow|feather)(?=/)", re.IGNORECASE)


def is_remote(path: str) -> bool:
    """Whether the path is a URL."""
    return "://" in path and URL.match(path) is not None


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
