"""Tables as CSV and JSON lines, read in groups of lines."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

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
)

CARRIAGE_RETURN = "\uf8ff"  # stands for one inside a line while csv reads it

csv.field_size_limit(sys.maxsize)  # 131,072 characters by default: less than 21,841 scores


def _write_csv(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    file.write(_csv_line(schema.names))
    for table in tables:
        for row in as_rows(table):
            file.write(_csv_line([_cell(value) for value in row.values()]))


def _csv_line(values: Iterable[Any]) -> bytes:
    line = io.StringIO()
    # With this terminator csv quotes carriage returns as well as line feeds.
    csv.writer(line, lineterminator="\r\n").writerow(values)
    return line.getvalue()[:-2].encode() + b"\n"


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else value


def _scan_csv(path: Path, schema: pa.Schema) -> Groups:
    with path.open("rb") as file:
        header = next(csv.reader([file.readline().decode("utf-8-sig")]), [])
        lines = _Lines(file)
        yield from _scan(lines, (dict(zip(header, row, strict=True)) for row in lines.csv()),
                         lambda row: _from_csv(row, schema), schema)  # fmt: skip


def _read_csv(path: Path, schema: pa.Schema, group: RowGroup) -> pa.Table:
    with path.open("rb") as file:
        header = next(csv.reader([file.readline().decode("utf-8-sig")]), [])
        file.seek(group.position)
        part = io.BytesIO(file.read(group.length))
    rows = (dict(zip(header, row, strict=True)) for row in _Lines(part).csv())
    return as_table((_from_csv(row, schema) for row in rows), schema)


def _from_csv(row: dict[str, str], schema: pa.Schema) -> PredictionRow:
    return {name: _parsed(row[name], schema.field(name).type) for name in schema.names}


def _parsed(text: str, kind: pa.DataType) -> Any:
    if text == "":
        return None
    return text if kind == pa.string() else json.loads(text)


def _write_jsonl(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    for table in tables:
        for row in as_rows(table.select(schema.names)):
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def _scan_jsonl(path: Path, schema: pa.Schema) -> Groups:
    with path.open("rb") as file:
        lines = _Lines(file)
        yield from _scan(lines, map(json.loads, lines), lambda row: row, schema)


def _read_jsonl(path: Path, schema: pa.Schema, group: RowGroup) -> pa.Table:
    with path.open("rb") as file:
        file.seek(group.position)
        lines = file.read(group.length).split(b"\n")
    return as_table((json.loads(line) for line in lines if line), schema)


class _Lines:
    """The lines of a file that end in a line feed, and the position up to which it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.position = file, file.tell()

    def __iter__(self) -> Iterator[str]:
        for line in self.file:
            self.position += len(line)
            yield line.decode()

    def csv(self) -> Iterator[list[str]]:
        """Records. Older tables have fields with a carriage return that are not quoted."""
        replaced = False

        def lines() -> Iterator[str]:
            nonlocal replaced
            for line in self:
                text, ending = line.removesuffix("\n").removesuffix("\r"), "\n"
                replaced = replaced or "\r" in text
                yield text.replace("\r", CARRIAGE_RETURN) + ending

        for record in csv.reader(lines()):
            if replaced:
                record = [value.replace(CARRIAGE_RETURN, "\r") for value in record]
                replaced = False
            yield record


def _scan(
    lines: _Lines,
    rows: Iterator[Any],
    convert: Callable[[Any], PredictionRow],
    schema: pa.Schema,
) -> Groups:
    """Cut the rows of a text file into groups; `lines.position` is where each of them ends."""
    start, found = lines.position, list[PredictionRow]()
    for row in rows:
        found.append(convert(row))
        length = lines.position - start
        if len(found) >= ROWS_PER_GROUP or length >= BYTES_PER_GROUP:
            yield RowGroup(start, length), as_table(found, schema)
            start, found = lines.position, []
    if found:
        yield RowGroup(start, lines.position - start), as_table(found, schema)


CSV = TableFormat(_write_csv, _scan_csv, _read_csv)
JSONL = TableFormat(_write_jsonl, _scan_jsonl, _read_jsonl)
