"""Tables as Lance datasets, which are folders; needs the extra `lance`."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from videopipe.errors import VideopipeError
from videopipe.prediction.table.table_format import Groups, RowGroup, TableFormat

LANCE_SUFFIX = ".lance"
ROWS_AT_A_TIME = 4096


def check_installed() -> None:
    """VideopipeError when there is no library for Lance."""
    _lance()


def table_schema(path: Path) -> pa.Schema:
    """The columns of a dataset."""
    return _lance().dataset(str(path)).schema


def _write_folder(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    batches = chain.from_iterable(table.to_batches() for table in tables)
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    _lance().write_dataset(reader, str(path), mode="create")


def _write(_: IO[bytes], __: pa.Schema, ___: Iterable[pa.Table]) -> None:
    raise VideopipeError("a Lance dataset is a folder and cannot be written as one file")


def _scan(path: Path, schema: pa.Schema) -> Groups:
    start = 0
    dataset = _lance().dataset(str(path))
    for batch in dataset.to_batches(columns=schema.names, batch_size=ROWS_AT_A_TIME):
        yield RowGroup(start, len(batch)), pa.Table.from_batches([batch]).cast(schema)
        start += len(batch)


def _read(path: Path, schema: pa.Schema, group: RowGroup) -> pa.Table:
    dataset = _lance().dataset(str(path))
    table = dataset.to_table(columns=schema.names, offset=group.position, limit=group.length)
    return table.cast(schema)


def _lance() -> Any:
    try:
        import lance
    except ImportError:
        raise VideopipeError(
            ".lance needs a library that is not installed: pip install 'videopipe[lance]'"
        ) from None
    return lance


LANCE = TableFormat(_write, _scan, _read, _write_folder)
