"""Videos as bytes in a column of a Parquet or Arrow file: which column, and the bytes of a row.

The video of row 12 (counted from 0) has the path `films.parquet/12`, or `films.parquet/12-a.mp4`
where another column has names. Rows are read in order, one row group after the other; a process
holds what one page of the column takes, which most writers make as large as the row group.
"""

import re
import threading
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videopipe.errors import DataError, DecodeError, first_line
from videopipe.system.pool_worker import heartbeat
from videopipe.video.sources.addresses import is_remote
from videopipe.video.sources.remote import describe, file_system, retried

if TYPE_CHECKING:
    import pyarrow as pa

PATH_COLUMNS = ("path", "video", "video_path", "file", "filename", "file_name")
BYTES_COLUMNS = ("bytes", "video_bytes", "video", "data", "content", "mp4", "webm", "mkv", "avi")
BUFFER_BYTES = 2**20
ROW = re.compile(r"(\d+)(-|$)")
NO_SUCH_ROW = "no such file"  # the reason of a missing video begins like this
_cursors = threading.local()  # each thread reads its own rows in order


def member_name(row: int, name: object) -> str:
    """`12`, or `12-a.mp4` for a video that has a name; the row alone decides which one it is."""
    words = str(name).replace("\\", "/").rstrip("/").rpartition("/")[2] if name else ""
    return f"{row}-{words}" if words else str(row)


def find_bytes_column(schema: "pa.Schema", where: str) -> str | None:
    """The column with videos, `video.bytes` for a field of a structure; None: a list of paths.

    A column named in BYTES_COLUMNS, or else, in a table without paths, the only one with bytes.
    """
    import pyarrow as pa

    found = []
    for field in schema:
        if _is_bytes(field.type) and (
            field.name.lower() not in PATH_COLUMNS or field.name.lower() == "video"
        ):
            found.append(field.name)
        elif pa.types.is_struct(field.type):
            inside = [field.type.field(number) for number in range(field.type.num_fields)]
            found += [
                f"{field.name}.{one.name}"
                for one in inside
                if one.name == "bytes" and _is_bytes(one.type)
            ]
    named = [name for name in found if name.partition(".")[0].lower() in BYTES_COLUMNS]
    if not named and find_path_column(schema) is not None:
        return None
    chosen = named or found
    if len(chosen) > 1:
        raise DataError(
            f"{where}: the columns {', '.join(chosen)} hold bytes; expected the videos in one "
            "column called 'bytes', and the others under another name"
        )
    return chosen[0] if chosen else None


def find_path_column(schema: "pa.Schema") -> str | None:
    """The column with paths as text; `video.path` beside bytes in a structure; None without one."""
    import pyarrow as pa

    for field in schema:
        if field.name.lower() in PATH_COLUMNS and is_text(field.type):
            return field.name
    for field in schema:
        inside = field.type if pa.types.is_struct(field.type) else pa.struct([])
        if inside.get_field_index("path") >= 0 and is_text(inside.field("path").type):
            return f"{field.name}.path"
    return None


def _is_bytes(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def is_text(kind: "pa.DataType") -> bool:
    """Whether a column holds text, as it is or by numbers of a dictionary."""
    import pyarrow as pa

    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(text) or pa.types.is_large_string(text)


def leaf(batch: "pa.RecordBatch", column: str) -> "pa.Array":
    """A column, or for `video.bytes` the field of a structure."""
    name, _, inside = column.partition(".")
    if name in batch.schema.names:
        found = batch.column(name)
        return found.field(inside) if inside else found
    return batch.column(column)  # a name with a dot


def open_source(table: str) -> Any:
    """What pyarrow opens: the path of a file, or the opened object behind a URL."""
    if not is_remote(table):
        return table
    driver, path = file_system(table)
    return driver.open(path, "rb", block_size=BUFFER_BYTES)


def row_bytes(table: str, member: str) -> Any:
    """The bytes of the row that `member` names, as a buffer; DecodeError with the reason."""
    import pyarrow as pa

    path = f"{table}/{member}"
    found = ROW.match(member)
    if found is None:
        raise DecodeError(path, f"{NO_SUCH_ROW} in the table; expected the number of a row")
    try:
        if is_remote(table):
            version = retried(table, lambda: describe(table).version)
            buffer = retried(table, lambda: _read(table, version, int(found[1])))
        else:
            status = Path(table).stat()
            buffer = _read(table, (status.st_size, status.st_mtime_ns), int(found[1]))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DecodeError(path, f"the table cannot be read ({first_line(error)})") from None
    if buffer is None:
        raise DecodeError(path, "the row has no bytes")
    return buffer


def _read(table: str, version: tuple[object, ...], row: int) -> Any:
    """From the cursor of this thread, which is opened again after a failure or a change."""
    key, cursor = getattr(_cursors, "last", (None, None))
    _cursors.last = (None, None)
    if cursor is None or key != (table, version):
        is_parquet = table.lower().endswith(".parquet")
        cursor = _ParquetCursor(table) if is_parquet else _ArrowCursor(table)
    if row >= cursor.num_rows:
        words = f"{NO_SUCH_ROW} in the table, which has {cursor.num_rows} rows"
        raise DecodeError(f"{table}/{row}", words)
    value = cursor.read(row)
    _cursors.last = ((table, version), cursor)
    return value


class _ParquetCursor:
    """Reads on from the last row, or from the beginning of another row group."""

    def __init__(self, table: str) -> None:
        import pyarrow.parquet as pq

        self.file = pq.ParquetFile(open_source(table), buffer_size=BUFFER_BYTES, pre_buffer=False)
        self.column = _column(self.file.schema_arrow, table)
        metadata = self.file.metadata
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        self.starts = [0, *accumulate(sizes)]  # of the row groups, and the end
        self.num_rows = self.starts[-1]
        self.next_row = self.num_rows
        self.rows: Iterator[Any] = iter(())

    def read(self, row: int) -> Any:
        group = bisect_right(self.starts, row) - 1
        if not self.starts[group] < self.next_row <= row:  # another row group, or backwards
            self.next_row = self.starts[group]
            self.rows = self.file.iter_batches(1, row_groups=[group], columns=[self.column])
        while self.next_row < row:
            next(self.rows)
            self.next_row += 1
            heartbeat()
        self.next_row += 1
        return _value(leaf(next(self.rows), self.column), 0)


class _ArrowCursor:
    """Record batches of a memory-mapped file: only the pages of the row are read."""

    def __init__(self, table: str) -> None:
        import pyarrow as pa

        source = pa.PythonFile(open_source(table)) if is_remote(table) else pa.memory_map(table)
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if is_file:
            reader = pa.ipc.open_file(source)
            self.batches = [reader.get_batch(n) for n in range(reader.num_record_batches)]
        else:
            reader = pa.ipc.open_stream(source)
            self.batches = list(reader)
        self.column = _column(reader.schema, table)
        self.starts = [0, *accumulate(len(batch) for batch in self.batches)]
        self.num_rows = self.starts[-1]

    def read(self, row: int) -> Any:
        number = bisect_right(self.starts, row) - 1
        return _value(leaf(self.batches[number], self.column), row - self.starts[number])


def _value(column: "pa.Array", row: int) -> Any:
    return column[row].as_buffer()  # None for a null


def _column(schema: "pa.Schema", table: str) -> str:
    found = find_bytes_column(schema, table)
    if found is None:
        raise DecodeError(table, "the table has no column of bytes")
    return found
