"""Tables as files: Parquet, CSV and JSON lines, told apart by the ending of the name."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from videopipe.errors import ConfigError
from videopipe.inference.rows import Row, shortest


@dataclass(frozen=True)
class TableFormat:
    """How tables of one kind are written piece by piece, and read whole."""

    write: Callable[[IO[bytes], pa.Schema, Iterable[pa.Table]], None]
    read: Callable[[Path, pa.Schema], pa.Table]


def format_of(path: Path) -> TableFormat:
    """The format that the ending of `path` names."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise ConfigError(
            [f"--out is '{path}'; expected a name ending in {', '.join(FORMATS)}"]
        ) from None


def as_table(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist(list(rows), schema=schema)


def as_rows(table: pa.Table) -> Iterator[Row]:
    """The rows of an Arrow table, with float32 values as their shortest decimals."""
    for batch in table.to_batches(max_chunksize=1024):
        columns = [_plain(batch.column(i), batch.field(i).type) for i in range(batch.num_columns)]
        for values in zip(*columns, strict=True):
            yield dict(zip(batch.schema.names, values, strict=True))


def _plain(column: pa.Array, kind: pa.DataType) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if kind == pa.float32():
        return [None if value is None else shortest(np.float32(value)) for value in values]
    if kind == pa.list_(pa.float32()):
        return [
            None if value is None else [shortest(number) for number in np.array(value, np.float32)]
            for value in values
        ]
    return values


def _write_parquet(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)


def _read_parquet(path: Path, schema: pa.Schema) -> pa.Table:
    # ParquetFile, not read_table: the latter reads "a=1/" in a path as a column.
    with pq.ParquetFile(path) as file:
        return file.read().select(schema.names).cast(schema)


def _write_csv(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(schema.names)
    for table in tables:
        for row in as_rows(table):
            writer.writerow([_cell(value) for value in row.values()])
    text.detach()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else value


def _read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            {name: _parsed(row[name], schema.field(name).type) for name in schema.names}
            for row in csv.DictReader(file)
        ]
    return as_table(rows, schema)


def _parsed(text: str, kind: pa.DataType) -> Any:
    if text == "":
        return None
    return text if kind == pa.string() else json.loads(text)


def _write_jsonl(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    for table in tables:
        for row in as_rows(table.select(schema.names)):
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def _read_jsonl(path: Path, schema: pa.Schema) -> pa.Table:
    with path.open(encoding="utf-8") as file:
        return as_table((json.loads(line) for line in file), schema)


FORMATS = {
    ".parquet": TableFormat(_write_parquet, _read_parquet),
    ".csv": TableFormat(_write_csv, _read_csv),
    ".jsonl": TableFormat(_write_jsonl, _read_jsonl),
}
