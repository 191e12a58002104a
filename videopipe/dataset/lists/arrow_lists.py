"""Lists of videos in Parquet and Arrow files (`.parquet`, `.arrow`, `.feather`)."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videopipe.errors import DataError, first_line
from videopipe.video.sources.addresses import is_remote
from videopipe.video.sources.byte_columns import (
    PATH_COLUMNS,
    find_bytes_column,
    find_path_column,
    is_text,
    leaf,
    member_name,
    open_source,
)

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_A_TIME = 8192


def arrow_rows(
    file: Path | str, known: Collection[str], *, as_bytes: bool = False
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows with their numbers from 1, read as they are drawn; only the `known` columns.

    A column must hold paths as text. With `as_bytes`, videos may be bytes in a column instead; the
    path of such a row leads to them (videopipe/video/sources/byte_columns.py).
    """
    import pyarrow as pa

    row = 0
    try:
        for columns, batch in _batches(file, known, as_bytes=as_bytes):
            names = [name.rpartition(".")[2].lower() for name in columns.names]
            values = [leaf(batch, name).to_pylist() for name in columns.names]
            for one in zip(*values, strict=True) if values else repeat((), len(batch)):
                row += 1
                found = {n: v for n, v in zip(names, one, strict=True) if v == v}  # no NaN
                if columns.in_bytes:
                    title = next((found.pop(n) for n in PATH_COLUMNS if n in found), None)
                    found["path"] = f"{file}/{member_name(row - 1, title)}"
                yield row, found
    except OSError as error:
        if error.errno is not None:
            words = error.strerror or str(error)
            raise DataError(f"{file}: the list of videos cannot be read ({words})") from None
        raise DataError(f"{file}: damaged after row {row} ({first_line(error)})") from None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(
            f"{file}: not a Parquet or Arrow file, or damaged after row {row} ({first_line(error)})"
        ) from None


def holds_bytes(file: Path | str) -> bool:
    """Whether the videos of a Parquet or Arrow file are bytes in a column of it."""
    import pyarrow as pa

    try:
        for columns, _ in _batches(file, (), as_bytes=True):
            return columns.in_bytes
    except (pa.ArrowException, OSError, DataError):
        if is_remote(str(file)):
            raise  # the caller tries again
    return False


@dataclass(frozen=True)
class _Columns:
    names: list[str]  # that are read; `video.path` is a field of a structure
    in_bytes: bool  # the videos are bytes of another column


def _batches(
    file: Path | str, known: Collection[str], *, as_bytes: bool
) -> Iterator[tuple[_Columns, "pa.RecordBatch"]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if str(file).lower().endswith(".parquet"):
        with pq.ParquetFile(open_source(str(file)), pre_buffer=False) as table:
            columns = _chosen(file, table.schema_arrow, known, as_bytes=as_bytes)
            for batch in table.iter_batches(ROWS_AT_A_TIME, columns=columns.names):
                yield columns, batch
        return
    given = open_source(str(file))
    with pa.memory_map(given) if isinstance(given, str) else pa.PythonFile(given) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        columns = _chosen(file, reader.schema, known, as_bytes=as_bytes)
        if not is_file:
            yield from ((columns, batch) for batch in reader)
            return
        for number in range(reader.num_record_batches):
            yield columns, reader.get_batch(number)


def _chosen(
    file: Path | str, schema: "pa.Schema", known: Collection[str], *, as_bytes: bool
) -> _Columns:
    """The columns to read; DataError when there is none with paths as text, nor with videos."""
    names = [name for name in schema.names if name.lower() in known]
    found = [name for name in names if name.lower() in PATH_COLUMNS]
    if as_bytes and (column := find_bytes_column(schema, str(file))) is not None:
        title = find_path_column(schema)
        others = [name for name in names if name not in found and name != column.partition(".")[0]]
        return _Columns([*others, *([] if title is None else [title])], True)
    texts = [name for name in found if is_text(schema.field(name).type)]
    if not found:
        raise DataError(
            f"{file}: the columns are {', '.join(schema.names)}; expected one of them to be "
            "'path' (others: label, split, start_seconds, end_seconds, frame_rate)"
            + (", or 'bytes' with the videos themselves" if as_bytes else "")
        )
    if not texts:
        raise DataError(
            f"{file}: the column {found[0]!r} has the type {schema.field(found[0]).type}; expected "
            "paths as text. Videos as bytes are read by `predict` and `embed` only"
        )
    return _Columns([name for name in names if name in texts or name not in found], False)
