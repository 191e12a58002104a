"""Members of tar files (WebDataset shards): their names, and the positions of their bytes."""

import json
import tarfile
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import IO

from pretrained_2d.atomic import write_text
from videopipe.errors import DataError, DecodeError
from videopipe.video.sources.addresses import is_remote
from videopipe.video.sources.remote import describe, file_system, retried
from videopipe.video.sources.scratch import scratch_folder

Members = dict[str, tuple[int, int]]  # name -> (first byte, size in bytes)
HEADER_READ_BYTES = 16 * 2**10
LARGEST_INDEXES_BYTES = 256 * 2**20  # of all shards behind URLs, in the scratch folder
DECOMPRESS = (
    "compressed tar shards are not read, because their members cannot be addressed; decompress "
    "it first (gunzip, bunzip2, unxz, unzstd)"
)
NO_SUCH_MEMBER = "no such file in the shard"


def members_of(shard: str) -> Members:
    """The files in a shard in their order; only headers are read."""
    if is_remote(shard):
        version = retried(shard, lambda: describe(shard).version)
        return _remote_members(shard, version)
    try:
        status = Path(shard).stat()
        return _local_members(shard, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise DataError(f"{shard}: the shard cannot be read ({error.strerror})") from None


def place_of(shard: str, name: str) -> tuple[int, int]:
    """(first byte, size in bytes) of a member; DecodeError when there is none of this name."""
    place = members_of(shard).get(name)
    if place is None:
        raise DecodeError(f"{shard}/{name}", NO_SUCH_MEMBER)
    return place


@lru_cache(8)
def _local_members(shard: str, _size: int, _changed: int) -> Members:
    with Path(shard).open("rb") as file:
        return _index(shard, file)


@lru_cache(8)
def _remote_members(shard: str, version: tuple[str, ...]) -> Members:
    """Find the members once by a request for each header, and cache them for other processes."""
    digest = blake2b(repr((shard, version)).encode(), digest_size=12).hexdigest()
    index = scratch_folder() / "indexes" / f"{digest}.json"
    try:
        members = {name: (start, size) for name, start, size in json.loads(index.read_text())}
        index.touch()
        return members
    except (OSError, ValueError):
        pass

    def scan() -> Members:
        driver, path = file_system(shard)
        block = {"block_size": HEADER_READ_BYTES, "cache_type": "readahead"}
        with driver.open(path, "rb", **block) as file:
            return _index(shard, file)

    members = retried(shard, scan)
    index.parent.mkdir(exist_ok=True)
    write_text(index, json.dumps([[name, *place] for name, place in members.items()]))
    _remove_unused(index.parent)
    return members


def _remove_unused(indexes: Path) -> None:
    """Remove what was not used for the longest time, until the folder is small enough."""
    found = []
    for file in indexes.iterdir():
        with suppress(FileNotFoundError):  # removed by another process
            found.append((file.stat().st_mtime_ns, file.stat().st_size, file))
    used = sum(size for _, size, _ in found)
    for _, size, file in sorted(found)[:-1]:
        if used <= LARGEST_INDEXES_BYTES:
            break
        file.unlink(missing_ok=True)
        used -= size


def _index(shard: str, file: IO[bytes]) -> Members:
    found: Members = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for member in tar:
                if member.isreg() and not member.issparse():
                    found[member.name] = member.offset_data, member.size
                tar.members.clear()  # type: ignore[attr-defined]  # else it keeps every header
    except tarfile.TarError as error:
        raise DataError(
            f"{shard}: not an uncompressed tar file, or damaged after {len(found)} members "
            f"({error}); {DECOMPRESS}"
        ) from None
    return found
