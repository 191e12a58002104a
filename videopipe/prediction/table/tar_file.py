"""Tables as WebDataset shards: for each row a `.json` and, where it has a vector, a `.npy`.

    1f0c…9a.json             the row without its vectors
    1f0c…9a.embedding.npy    a vector, float16 or float32

The key of a row is its id; a row of a window or a frame has the start in microseconds after it.
"""

import io
import json
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from videopipe.prediction.table.rows import PredictionRow
from videopipe.prediction.table.table_format import (
    BYTES_PER_GROUP,
    ROWS_PER_GROUP,
    Groups,
    RowGroup,
    TableFormat,
    as_rows,
    as_table,
    is_vector,
    vectors_of,
)


def _write(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    names = [field.name for field in schema if is_vector(field.type)]
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for table in tables:
            vectors = {name: vectors_of(table[name]) for name in names}
            for number, row in enumerate(as_rows(table.drop_columns(names))):
                _add_row(tar, row, {name: vectors[name][number] for name in names})


def _add_row(tar: tarfile.TarFile, row: PredictionRow, vectors: dict[str, Any]) -> None:
    key = row["id"]
    if "last" in row and row["start_seconds"] is not None:
        key += f"-{round(row['start_seconds'] * 1e6):012}"
    _add_file(tar, f"{key}.json", json.dumps(row, ensure_ascii=False).encode())
    for name, vector in vectors.items():
        if vector is not None:
            content = io.BytesIO()
            np.save(content, vector)
            _add_file(tar, f"{key}.{name}.npy", content.getvalue())


def _add_file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _scan(path: Path, schema: pa.Schema) -> Groups:
    with path.open("rb") as file:
        start, rows = 0, list[PredictionRow]()
        for place, row in _rows(file, schema):
            length = place - start  # before this row
            if len(rows) >= ROWS_PER_GROUP or length >= BYTES_PER_GROUP:
                yield RowGroup(start, length), as_table(rows, schema)
                start, rows = place, []
            rows.append(row)
        if rows:
            yield RowGroup(start, path.stat().st_size - start), as_table(rows, schema)


def _read(path: Path, schema: pa.Schema, group: RowGroup) -> pa.Table:
    with path.open("rb") as file:
        file.seek(group.position)
        part = io.BytesIO(file.read(group.length))
    return as_table((row for _, row in _rows(part, schema)), schema)


def _rows(file: IO[bytes], schema: pa.Schema) -> Iterator[tuple[int, PredictionRow]]:
    """Every row, and where its first member begins."""
    row: PredictionRow | None = None
    begun = 0
    with tarfile.open(fileobj=file, mode="r:") as tar:
        for member in tar:
            key, _, kind = member.name.partition(".")
            stored = tar.extractfile(member)
            if stored is None:
                raise ValueError(f"{member.name} is not a file")
            if kind == "json":
                if row is not None:
                    yield begun, row
                row, begun = json.loads(stored.read()), member.offset
            elif row is not None and kind.endswith(".npy"):
                name = kind.removesuffix(".npy")
                if name in schema.names:
                    row[name] = np.load(io.BytesIO(stored.read()), allow_pickle=False)
            else:
                raise ValueError(f"{key} has a member {kind} before its .json")
            tar.members.clear()  # type: ignore[attr-defined]  # else it keeps every header
    if row is not None:
        yield begun, row


TAR = TableFormat(_write, _scan, _read)
