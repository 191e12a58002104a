"""Rows on disk during a run: closed parts, and a journal of the rows that are not in one yet.

The folder `predictions.parquet.parts/` is beside `predictions.parquet`. Its `part-*` files are
complete tables that can be read at any time. A row is appended to a journal, one line each, as soon
as its video is done. A run that is killed therefore loses no finished row. Tables with embeddings
have parts of another form (arrow_parts.py).
"""

import csv
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
from videopipe.prediction.table.arrow_parts import (
    SUFFIX,
    ArrowPartWriter,
    recover_arrow_journal,
)
from videopipe.prediction.table.formats import format_of
from videopipe.prediction.table.lance_dataset import LANCE_SUFFIX
from videopipe.prediction.table.rows import PredictionRow
from videopipe.prediction.table.table_format import RowGroup, as_table

JOURNALS = "_part-*.journal"  # readers of a folder of tables skip names with an underscore
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)


class DiskFullError(VideopipeError):
    """The disk is full; everything written so far is kept."""


def parts_folder(out: Path) -> Path:
    """The folder of the parts of a table."""
    return out.with_name(out.name + ".parts")


def part_writer(
    folder: Path, name: str, schema: pa.Schema, suffix: str
) -> "PartWriter | ArrowPartWriter":
    """The writer for tables of this schema; without embeddings, parts have the table's format.

    Parts of a table that is a folder are files too.
    """
    if "embedding" in schema.names or suffix == LANCE_SUFFIX:
        return ArrowPartWriter(folder, name, schema)
    return PartWriter(folder, name, schema, suffix)


class PartWriter:
    """Appends rows to a journal and closes parts; the only writer of `part-<name>-*`."""

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
        self.rows: list[PredictionRow] = []
        self.number = 0
        self.begun = 0.0
        self.journal: BinaryIO | None = None

    def add(self, *added: PredictionRow) -> None:
        """Append rows; when this returns, killing the process does not lose them."""
        with explained(self.folder):
            if self.journal is None:
                self.journal = self._journal().open("xb")
                self.begun = time.monotonic()
            self.journal.write(b"".join(json.dumps(row).encode() + b"\n" for row in added))
            self.journal.flush()
            self.rows += added
            rows, seconds, size = self.limits
            full = len(self.rows) >= rows or self.journal.tell() >= size
            if full or time.monotonic() - self.begun >= seconds:
                self.finish_part()

    def finish_part(self) -> None:
        """Turn the journal into a part."""
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


def write_part(path: Path, rows: Sequence[PredictionRow], schema: pa.Schema) -> None:
    """Write a complete table, or no file at all."""
    sink = pa.BufferOutputStream()
    format_of(path).write(sink, schema, [as_table(rows, schema)])
    write_bytes(path, sink.getvalue().to_pybytes())


def list_parts(folder: Path, suffix: str) -> list[Path]:
    """The parts in a folder, those of the oldest run first."""
    return sorted({*folder.glob(f"part-*{suffix}"), *folder.glob(f"part-*{SUFFIX}")})


def recover_journals(folder: Path, schema: pa.Schema, suffix: str) -> None:
    """Turn the journals of a killed run into parts; no other run may be writing here."""
    with explained(folder):
        for journal in sorted(folder.glob(JOURNALS)):
            if journal.stem.endswith(SUFFIX):
                recover_arrow_journal(journal)
                continue
            part = folder / (journal.stem.removeprefix("_") + suffix)
            rows = list(read_journal(journal))
            # With the part there, the run was killed between finishing it and this unlink.
            if rows and not part.exists():
                write_part(part, rows, schema)
            journal.unlink()


def read_journal(journal: Path) -> Iterator[PredictionRow]:
    """The rows of a journal.

    A kill can cut the last line; a power failure can leave blocks of NUL bytes or part of a line
    anywhere. Lines that are not a row are skipped: their videos are predicted again.
    """
    with journal.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                continue
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and "id" in row:
                yield row


def scan_part(path: Path, schema: pa.Schema) -> Iterator[tuple[RowGroup, pa.Table]]:
    """The groups of a part, or of a whole table, with the columns of `schema`."""
    with _damage_explained(path):
        yield from format_of(path).scan(path, schema)


def read_group(path: Path, schema: pa.Schema, group: RowGroup) -> pa.Table:
    """One group that `scan_part` found."""
    with _damage_explained(path):
        return format_of(path).read(path, schema, group)


def read_part(path: Path, schema: pa.Schema) -> pa.Table:
    """A whole part as one Arrow table."""
    tables = [table for _, table in scan_part(path, schema)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


@contextmanager
def _damage_explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, csv.Error, pa.ArrowException) as error:
        raise DataError(
            f"{path}: not a readable table of predictions ({error}); delete this file to have its "
            "videos predicted again, or start over with --overwrite"
        ) from None


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn a full disk and missing permissions into errors with a remedy."""
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
            "is kept: free some space and give the same command again to resume"
        ) from None
