"""Objects behind URLs, by the drivers of fsspec: their properties, and copies of them.

An interrupted copy resumes at the byte where it stopped, after a pause that doubles every
time. An object that changes meanwhile is copied from its beginning.
"""

import logging
import os
import posixpath
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import IO, Any, TypeVar

from videopipe.errors import DataError, DecodeError
from videopipe.system.pool_worker import heartbeat
from videopipe.video.sources.addresses import is_remote, protocol_of
from videopipe.video.sources.failures import explain

T = TypeVar("T")
ATTEMPTS = 4  # without progress in between
FIRST_PAUSE_SECONDS = 0.5
SMALLEST_READ_BYTES, LARGEST_READ_BYTES = 64 * 2**10, 8 * 2**20
SLOW_READ_SECONDS, QUICK_READ_SECONDS = 2.0, 0.5
VERSIONS = (
    "ETag", "etag", "md5Hash", "generation", "blob_id", "LastModified", "Last-Modified", "created",
)  # fmt: skip
TIMES = (
    "LastModified", "Last-Modified", "updated", "mtime", "created", "last_commit", "uploaded_at",
)  # fmt: skip
# Without it the hub's driver lists the whole folder of a file, and does not say when it changed.
INFO_OPTIONS = {"hf": {"expand_info": True}}
GOOGLE = ("gs", "gcs")
EXTRAS = {"gs": "gcs", "gcs": "gcs", "s3": "remote", "http": "remote", "https": "remote"}


@dataclass(frozen=True)
class RemoteObject:
    """Properties of an object, from its server."""

    size_bytes: int | None
    version: tuple[str, ...]  # equal as long as the object is the same
    modified_at: float | None  # seconds since 1970


class ChangedError(Exception):
    """The object is not the one of which the first bytes were copied."""


def file_system(url: str) -> tuple[Any, str]:
    """(driver, path) of a URL; DecodeError when there is no driver for it."""
    check_driver(url)
    import fsspec

    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except ValueError as error:
        raise DecodeError(url, str(error)) from None
    return found


def check_driver(url: str) -> None:
    """DecodeError when no driver for the protocol is installed; connects to nothing."""
    protocol = protocol_of(url)
    if protocol in GOOGLE:
        quiet_google_driver()
    try:
        import fsspec

        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        extra = EXTRAS.get(protocol)
        advice = f"; pip install 'videopipe[{extra}]'" if extra else ""
        raise DecodeError(url, f"needs a driver that is not installed ({error}){advice}") from None
    except ValueError:
        raise DecodeError(
            url, f"unknown protocol {protocol!r}; expected s3://, gs://, hf:// or https://"
        ) from None


def quiet_google_driver() -> None:
    """Keep the driver of Google from writing a warning per object, and tracebacks.

    Its support of zonal buckets asks for the type of the bucket before every request where it has
    no credentials. The user's own choice is kept.
    """
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    if "GCSFS_DEBUG" not in os.environ:
        logging.getLogger("gcsfs").setLevel(logging.CRITICAL + 1)


def describe(url: str) -> RemoteObject:
    """Ask the server for the current properties of an object."""
    driver, path = file_system(url)
    driver.invalidate_cache(path)
    options = INFO_OPTIONS.get(url.partition("://")[0].lower(), {})
    return object_of(driver.info(path, **options))


def object_of(info: Mapping[str, Any]) -> RemoteObject:
    """The properties of an object as its driver gives them."""
    version = tuple(str(info[name]) for name in VERSIONS if info.get(name) is not None)
    times = (_seconds(info[name]) for name in TIMES if info.get(name) is not None)
    size = info.get("size")
    return RemoteObject(size, (str(size), *version), next((t for t in times if t), None))


def _seconds(value: Any) -> float | None:
    if not isinstance(value, datetime):
        value = getattr(value, "date", value)  # of a commit
    try:
        if isinstance(value, str):
            is_http = value[:1].isalpha()
            value = parsedate_to_datetime(value) if is_http else datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        return float(value)
    except (TypeError, ValueError):
        return None


def copy_object(url: str, target: IO[bytes], start: int = 0, size_bytes: int | None = None) -> None:
    """Write the object, or `size_bytes` of it from `start` on, to `target`.

    Raises DecodeError with the reason when that is not possible after several attempts.
    """
    first: RemoteObject | None = None
    read_bytes = 4 * SMALLEST_READ_BYTES

    def copy() -> None:
        nonlocal first, read_bytes
        now = describe(url)
        if first is not None and now.version != first.version:
            first = None
            raise ChangedError("the object changed while it was copied")
        if first is None:
            first = now
            target.seek(0)
        total = now.size_bytes - start if size_bytes is None and now.size_bytes else size_bytes
        wanted, read_bytes = read_bytes, SMALLEST_READ_BYTES  # a read that fails is lost
        _append(url, target, start, total, wanted)
        if describe(url).version != first.version:
            first = None
            raise ChangedError("the object changed while it was copied")

    retried(url, copy, progress=target.tell)
    target.truncate()  # at the last byte that was written
    target.flush()


def _append(url: str, target: IO[bytes], start: int, total: int | None, wanted: int) -> None:
    """Copy from where `target` ends; reads grow and shrink with the speed of the connection."""
    driver, path = file_system(url)
    with driver.open(path, "rb", cache_type="none") as source:
        if start + target.tell():
            try:
                source.seek(start + target.tell())
            except (ValueError, OSError):  # a server without ranges: from the beginning
                target.seek(0)
        while total is None or target.tell() < total:
            left = wanted if total is None else min(wanted, total - target.tell())
            begun = time.monotonic()
            block = source.read(left)
            if not block:
                break
            target.write(block)
            heartbeat()
            seconds = time.monotonic() - begun
            if seconds < QUICK_READ_SECONDS:
                wanted = min(2 * wanted, LARGEST_READ_BYTES)
            elif seconds > SLOW_READ_SECONDS:
                wanted = max(wanted // 4, SMALLEST_READ_BYTES)
    if total is not None and target.tell() < total:
        raise ConnectionError(f"the connection ended after {target.tell()} of {total} bytes")


def retried(url: str, work: Callable[[], T], progress: Callable[[], int] | None = None) -> T:
    """The result of `work`; DecodeError after several failures without progress in between."""
    failures, reached = 0, 0
    while True:
        try:
            return work()
        except (MemoryError, DataError):
            raise
        except Exception as error:  # noqa: BLE001 - every driver has its own kinds of errors
            temporary, reason = explain(error)
            if not temporary:
                raise DecodeError(url, reason) from None
            if progress is not None and not isinstance(error, ChangedError):
                failures = 0 if progress() > reached else failures
                reached = progress()
            failures += 1
            if failures >= ATTEMPTS:
                raise DecodeError(url, f"{reason} ({ATTEMPTS} attempts)") from None
        heartbeat()
        # A share of the pause depends on the URL, so that processes do not retry at one moment.
        share = 0.75 + zlib.crc32(url.encode("utf-8", "replace")) % 1000 / 2000
        time.sleep(FIRST_PAUSE_SECONDS * 2 ** (failures - 1) * share)


def parent_url(url: str) -> str:
    """The folder of an object."""
    return url.rpartition("/")[0]


def join_url(folder: str, path: str) -> str:
    """A path in a list: a URL or an absolute path stays, any other is relative to the folder."""
    if is_remote(path) or path.startswith("/"):
        return path
    protocol, _, rest = folder.partition("://")
    joined = f"{protocol}://{posixpath.normpath(f'{rest}/{path}')}"
    return f"{joined}/" if path.endswith("/") else joined
