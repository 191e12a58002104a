"""Parts of tables with vectors: Arrow files that are their own journal.

Rows are appended as record batches, from the memory of their arrays. A part that is complete ends
with the footer of the Arrow file format. One that a kill cut short has none; its record batches are
read up to the last whole one. Each has a checksum, since a power failure can leave zeros.
"""

import os
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa

from pretrained_2d.atomic import new_file, sync_folder
from videopipe.prediction.table.rows import PredictionRow
from videopipe.prediction.table.table_format import as_table

SUFFIX = ".arrow"
MAGIC_BYTES = 8  # of the file format; a stream of record batches follows
CHECKSUM = b"crc32"
ROWS_PER_BATCH = 256
SECONDS_PER_BATCH = 0.2  # so much computing at most is repeated after a kill


class ArrowPartWriter:
    """Appends rows to a journal and closes parts; the only writer of `part-<name>-*`.

    It has the interface of `PartWriter`. Rows that come quickly are written several at a time.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        schema: pa.Schema,
        *,
        bytes_per_part: int = 256 * 2**20,
        seconds_per_part: float = 60.0,
    ) -> None:
        self.folder, self.name, self.schema = folder, name, schema
        self.limits = bytes_per_part, seconds_per_part
        self.rows: list[PredictionRow] = []
        self.number = 0
        self.begun = self.flushed = 0.0
        self.file: IO[bytes] | None = None

    def add(self, *rows: PredictionRow) -> None:
        """Append rows that belong together: after a kill all of them are there, or none."""
        self.rows += rows
        now = time.monotonic()
        if len(self.rows) >= ROWS_PER_BATCH or now - self.flushed >= SECONDS_PER_BATCH:
            self.flush()
            size, seconds = self.limits
            if self.file is not None and (self.file.tell() >= size or now - self.begun >= seconds):
                self.finish_part()

    def flush(self) -> None:
        """Write the rows that are still in memory; a kill does not lose them after this."""
        if not self.rows:
            return
        if self.file is None:
            self.file = self._journal().open("xb")
            self.writer = pa.ipc.new_file(self.file, self.schema)
            self.begun = time.monotonic()
        (batch,) = as_table(self.rows, self.schema).to_batches()
        self.writer.write_batch(batch, custom_metadata={CHECKSUM: _checksum(batch)})
        self.file.flush()
        self.rows = []
        self.flushed = time.monotonic()

    def finish_part(self) -> None:
        """Turn the journal into a part."""
        self.flush()
        if self.file is None:
            return
        self.writer.close()
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self.file = None
        self._journal().replace(self.folder / self._part())
        sync_folder(self.folder)
        self.number += 1

    def _part(self) -> str:
        return f"part-{self.name}-{self.number:05}{SUFFIX}"

    def _journal(self) -> Path:
        return self.folder / f"_{self._part()}.journal"


def recover_arrow_journal(journal: Path) -> None:
    """Turn the journal of a killed run into a part; no other run may be writing it."""
    part = journal.with_name(journal.stem.removeprefix("_"))
    batches = read_arrow_journal(journal)
    first = next(batches, None)
    if first is not None:
        with new_file(part) as file, pa.ipc.new_file(file, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
    journal.unlink()


def read_arrow_journal(journal: Path) -> Iterator[pa.RecordBatch]:
    """The whole record batches of a part that is being written, or was when it was killed."""
    with journal.open("rb") as file:
        file.seek(MAGIC_BYTES)
        try:
            reader = pa.ipc.open_stream(file)
            while True:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
                if metadata is None or metadata.get(CHECKSUM) != _checksum(batch):
                    return
                yield batch
        except (StopIteration, OSError, ValueError, pa.ArrowException):
            return  # the end, or where the file was cut


def _checksum(batch: pa.RecordBatch) -> bytes:
    """The checksum of the values. A validity map without nulls is left out: a file may omit it."""
    value = len(batch)
    for column in batch.columns:
        nulls, *values = column.buffers()
        for buffer in [nulls if column.null_count else None, *values]:
            if buffer is not None:
                value = zlib.crc32(buffer, value)
    return b"%08x" % value
