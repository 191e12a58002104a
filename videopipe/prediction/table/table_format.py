"""What a format of tables offers, and the conversion between rows and Arrow tables."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from videopipe.prediction.table.rows import PredictionRow, shortest

ROWS_PER_GROUP = 1024  # of formats that do not store groups
BYTES_PER_GROUP = 16 * 2**20
Vector = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class RowGroup:
    """Consecutive rows of a file: numbers of stored groups, or a range of bytes."""

    position: int
    length: int = 0


Groups = Iterator[tuple[RowGroup, pa.Table]]


@dataclass(frozen=True)
class TableFormat:
    """Writes tables group by group. `scan` reads all groups, `read` reads one again.

    Both read only the columns of the schema they are given. A format whose tables are folders has
    `write_folder`.
    """

    write: Callable[[IO[bytes], pa.Schema, Iterable[pa.Table]], None]
    scan: Callable[[Path, pa.Schema], Groups]
    read: Callable[[Path, pa.Schema, RowGroup], pa.Table]
    write_folder: Callable[[Path, pa.Schema, Iterable[pa.Table]], None] | None = None

    def save(self, path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
        """Write a complete table beside `path`, sync it and rename it; or leave no trace."""
        beside = path.with_name(f".{path.name}.partial")
        try:
            if self.write_folder is not None:
                remove(beside)
                self.write_folder(beside, schema, tables)
                remove(path)
            else:
                with beside.open("wb") as file:
                    self.write(file, schema, tables)
                    file.flush()
                    os.fsync(file.fileno())
            beside.replace(path)
        finally:
            remove(beside)


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column holds one array of floating-point numbers per row."""
    lists = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
    return lists and pa.types.is_floating(kind.value_type)


def as_table(rows: Iterable[PredictionRow], schema: pa.Schema) -> pa.Table:
    """Rows as an Arrow table; a vector may be a NumPy array or a list."""
    rows = list(rows)
    columns = [
        _vectors([row.get(field.name) for row in rows], field.type)
        if is_vector(field.type)
        else pa.array([row.get(field.name) for row in rows], field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _vectors(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Arrays as an Arrow column, copied once from their memory; a missing one is null."""
    numbers = kind.value_type.to_pandas_dtype()
    missing = np.array([value is None for value in values], bool)
    if pa.types.is_fixed_size_list(kind):
        flat = np.zeros((len(values), kind.list_size), numbers)
        for place, value in enumerate(values):
            if value is not None:
                flat[place] = value
        return pa.FixedSizeListArray.from_arrays(
            pa.array(flat.reshape(-1)), type=kind, mask=pa.array(missing)
        )
    arrays = [np.asarray(() if value is None else value, numbers) for value in values]
    offsets = np.zeros(len(values) + 1, np.int32)
    offsets[1:] = np.cumsum([len(array) for array in arrays])
    flat = np.concatenate(arrays) if arrays else np.zeros(0, numbers)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(flat, kind.value_type), type=kind, mask=pa.array(missing)
    )


def vectors_of(column: pa.ChunkedArray | pa.Array) -> list[Vector | None]:
    """The arrays of a vector column, as views of its memory."""
    found: list[Vector | None] = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        valid = chunk.is_valid().to_numpy(zero_copy_only=False)
        flat = chunk.values.to_numpy()
        if pa.types.is_fixed_size_list(chunk.type):
            width = chunk.type.list_size
            starts = (chunk.offset + np.arange(len(chunk))) * width
            ends = starts + width
        else:
            offsets = chunk.offsets.to_numpy()
            starts, ends = offsets[:-1], offsets[1:]
        bounds = zip(valid, starts, ends, strict=True)
        found += [flat[start:end] if there else None for there, start, end in bounds]
    return found


def as_rows(table: pa.Table) -> Iterator[PredictionRow]:
    """The rows of an Arrow table, with floating-point values as their shortest decimals."""
    for batch in table.to_batches(max_chunksize=ROWS_PER_GROUP):
        columns = [_plain(batch.column(i), batch.field(i).type) for i in range(batch.num_columns)]
        for values in zip(*columns, strict=True):
            yield dict(zip(batch.schema.names, values, strict=True))


def _plain(column: pa.Array, kind: pa.DataType) -> list[Any]:
    if is_vector(kind):
        return [
            None if vector is None else [shortest(number) for number in vector]
            for vector in vectors_of(column)
        ]
    values: list[Any] = column.to_pylist()
    if kind == pa.float32():
        return [None if value is None else shortest(np.float32(value)) for value in values]
    return values
