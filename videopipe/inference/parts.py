"""Results on disk while a run goes on: complete parts, and a journal of what is not yet in one.

Beside `predictions.parquet` lies `predictions.parquet.parts/`. Its `part-*` files are whole tables,
never touched again, readable at any time. Rows that wait for the next part stand in a journal, a
line each, written as soon as a video is done; so a killed run has lost nothing it had finished.
"""

import errno
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from pretrained_2d.atomic import write_bytes
from videopipe.errors import DataError, VideopipeError
from videopipe.inference.formats import as_table, format_of
from videopipe.inference.rows import Row

JOURNALS = "_part-*.journal"  # readers of a folder of tables pass over the underscore
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)


class DiskFullError(VideopipeError):
    """There is no room for results; everything written so far is kept."""


def parts_folder(out: Path) -> Path:
    """Where the parts of a table lie while it grows."""
    return out.with_name(out.name + ".parts")


class PartWriter:
    """Takes rows one by one; the only writer of files that begin with `part-<name>-`."""

    def __init__(
        self,
        folder: Path,
        name: str,
        schema: pa.Schema,
        suffix: str,
        *,
        rows_per_part: int = 10_000,
        seconds_per_part: float = 60.0,
        bytes_per_part: int = 64 * 2**20,
    ) -> None:
        self.folder, self.name, self.schema, self.suffix = folder, name, schema, suffix
        self.limits = rows_per_part, seconds_per_part, bytes_per_part
        self.rows: list[Row] = []
        self.number = 0
        self.begun = 0.0
        self.journal: BinaryIO | None = None

    def add(self, row: Row) -> None:
        """Keep a row for good: when this returns, killing the process does not lose it."""
        with explained(self.folder):
            if self.journal is None:
                self.journal = self._journal().open("xb")
                self.begun = time.monotonic()
            self.journal.write(json.dumps(row).encode() + b"\n")
            self.journal.flush()
            self.rows.append(row)
            rows, seconds, size = self.limits
            full = len(self.rows) >= rows or self.journal.tell() >= size
            if full or time.monotonic() - self.begun >= seconds:
                self.finish_part()

    def finish_part(self) -> None:
        """Turn what stands in the journal into a part."""
        if self.journal is None:
            return
        with explained(self.folder):
            write_part(self._part(), self.rows, self.schema)
            self.journal.close()
            self._journal().unlink()
        self.journal, self.rows = None, []
        self.number += 1

    def _part(self) -> Path:
        return self.folder / f"part-{self.name}-{self.number:05}{self.suffix}"

    def _journal(self) -> Path:
        return self.folder / f"_{self._part().stem}.journal"


def write_part(path: Path, rows: Sequence[Row], schema: pa.Schema) -> None:
    """A whole table or no file at all."""
    sink = pa.BufferOutputStream()
    format_of(path).write(sink, schema, [as_table(rows, schema)])
    write_bytes(path, sink.getvalue().to_pybytes())


def list_parts(folder: Path, suffix: str) -> list[Path]:
    """The parts in a folder, oldest run first."""
    return sorted(folder.glob(f"part-*{suffix}"))


def recover_journals(folder: Path, schema: pa.Schema, suffix: str) -> None:
    """Make parts of the journals that a killed run left; no other run may be writing here."""
    with explained(folder):
        for journal in sorted(folder.glob(JOURNALS)):
            part = folder / (journal.stem.removeprefix("_") + suffix)
            rows = list(_whole_lines(journal))
            # With the part there, the run was killed between finishing it and this unlink.
            if rows and not part.exists():
                write_part(part, rows, schema)
            journal.unlink()


def _whole_lines(journal: Path) -> Iterator[Row]:
    """The rows of a journal; the last line may have been cut off in the middle."""
    with journal.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def read_part(path: Path, schema: pa.Schema) -> pa.Table:
    """A part, or a whole table, as Arrow; `DataError` when it is damaged."""
    try:
        return format_of(path).read(path, schema)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise DataError(
            f"{path}: not a readable table of predictions ({error}); delete this file to have its "
            "videos predicted again, or start anew with --overwrite"
        ) from None


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn "no space left" and "not allowed" into words and a way on."""
    try:
        yield
    except OSError as error:
        if error.errno in FORBIDDEN:
            raise VideopipeError(
                f"{error.filename or folder}: {error.strerror}; give an --out in a folder that you "
                "may write to"
            ) from None
        if error.errno not in DISK_FULL:
            raise
        raise DiskFullError(
            f"no room left for results in {folder} ({error.strerror}). Everything finished so far "
            "is kept: free some space and give the same command again to go on"
        ) from None
