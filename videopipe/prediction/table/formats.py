"""Tables as files: the format is chosen by the suffix of the name.

A table is written and read in groups of rows, so that memory does not grow with its length.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from videopipe.errors import ConfigError
from videopipe.prediction.table.lance_dataset import LANCE, LANCE_SUFFIX, check_installed
from videopipe.prediction.table.table_format import (
    BYTES_PER_GROUP,
    Groups,
    RowGroup,
    TableFormat,
    is_vector,
)
from videopipe.prediction.table.tar_file import TAR
from videopipe.prediction.table.text_files import CSV, JSONL


def format_of(path: Path) -> TableFormat:
    """The format that the suffix of `path` names."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigError([f"--out is '{path}'; expected a name ending in {', '.join(FORMATS)}"])
    if suffix == LANCE_SUFFIX:
        check_installed()
    return FORMATS[suffix]


def _write_parquet(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    # Compression, dictionaries and statistics of vectors take most of the time and save 7 %.
    plain = [field.name for field in schema if field.name != "embedding"]
    compression = {name: "zstd" for name in plain if not is_vector(schema.field(name).type)}
    compression |= {f"{name}.list.element": "zstd" for name in plain if name not in compression}
    with pq.ParquetWriter(
        file,
        schema,
        compression=compression | {"embedding.list.element": "none"},
        use_dictionary=plain,
        write_statistics=plain,
    ) as writer:
        for table in tables:
            writer.write_table(table)


def _scan_parquet(path: Path, schema: pa.Schema) -> Groups:
    # ParquetFile, not read_table: the latter reads "a=1/" in a path as a column.
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, schema.names)
            yield RowGroup(number), table.select(schema.names).cast(schema)


def _read_parquet(path: Path, schema: pa.Schema, group: RowGroup) -> pa.Table:
    with pq.ParquetFile(path) as file:
        table = file.read_row_group(group.position, schema.names)
    return table.select(schema.names).cast(schema)


def _write_arrow(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with pa.ipc.new_file(file, schema) as writer:
        for table in tables:
            writer.write_table(table)


def _scan_arrow(path: Path, schema: pa.Schema) -> Groups:
    """Groups of several record batches, since a journal has small ones."""
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        first, batches = 0, list[pa.RecordBatch]()
        for number in range(reader.num_record_batches):
            batches.append(reader.get_batch(number))
            if sum(batch.nbytes for batch in batches) >= BYTES_PER_GROUP:
                yield RowGroup(first, len(batches)), _of(schema, batches)
                first, batches = number + 1, []
        if batches:
            yield RowGroup(first, len(batches)), _of(schema, batches)


def _read_arrow(path: Path, schema: pa.Schema, group: RowGroup) -> pa.Table:
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        numbers = range(group.position, group.position + group.length)
        return _of(schema, (reader.get_batch(number) for number in numbers))


def _of(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(list(batches)).select(schema.names).cast(schema)


FORMATS = {
    ".parquet": TableFormat(_write_parquet, _scan_parquet, _read_parquet),
    ".csv": CSV,
    ".jsonl": JSONL,
    ".arrow": TableFormat(_write_arrow, _scan_arrow, _read_arrow),
    ".tar": TAR,
    LANCE_SUFFIX: LANCE,
}
