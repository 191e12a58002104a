"""What the path of a video stands for: a file, an object behind a URL, a member of a tar shard.

videos/a.mp4                 a file, or a folder of frames
s3://bucket/a.mp4            an object; any protocol of fsspec
shards/train-00.tar/a.mp4    a member of a tar file; the shard may be behind a URL too
"""

import os
import re

URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
TAR_SUFFIX = ".tar"


def is_remote(path: str) -> bool:
    """Whether the path is a URL."""
    return "://" in path and URL.match(path) is not None


def split_member(path: str) -> tuple[str, str] | None:
    """(shard, member) of a path below a tar file; None for anything else."""
    start = path.find(f"{TAR_SUFFIX}/")
    while start >= 0:
        end = start + len(TAR_SUFFIX)
        shard = path[:end]
        if is_remote(shard) or os.path.isfile(shard):  # noqa: PTH113 - called for every video
            return shard, path[end + 1 :]
        start = path.find(f"{TAR_SUFFIX}/", end)
    return None


def is_plain(path: str) -> bool:
    """Whether the path is that of a file or folder of this machine, also of a missing one."""
    return not is_remote(path) and split_member(path) is None
