"""Lists of videos in Parquet and Arrow files (`.parquet`, `.arrow`, `.feather`)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videopipe.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_SUFFIXES = frozenset({".parquet", ".arrow", ".feather"})
ROWS_AT_A_TIME = 8192


def arrow_rows(
    file: Path, known: Collection[str], paths: Sequence[str]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows with their numbers from 1, read as they are drawn; only the `known` columns.

    One of the columns `paths` must be there and hold text.
    """
    import pyarrow as pa

    row = 0
    try:
        for batch in _batches(file, known, paths):
            names = [name.lower() for name in batch.schema.names]
            columns = [column.to_pylist() for column in batch.columns]
            for values in zip(*columns, strict=True):
                row += 1
                yield row, {n: v for n, v in zip(names, values, strict=True) if v == v}  # no NaN
    except OSError as error:
        if error.errno is not None:
            words = error.strerror or str(error)
            raise DataError(f"{file}: the list of videos cannot be read ({words})") from None
        raise DataError(f"{file}: damaged after row {row} ({_first_line(error)})") from None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(
            f"{file}: not a Parquet or Arrow file, or damaged after row {row} "
            f"({_first_line(error)})"
        ) from None


def _batches(
    file: Path, known: Collection[str], paths: Sequence[str]
) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix.lower() == ".parquet":
        with pq.ParquetFile(file, pre_buffer=False) as table:
            names = _checked(file, table.schema_arrow, known, paths)
            yield from table.iter_batches(ROWS_AT_A_TIME, columns=names)
        return
    with pa.memory_map(str(file)) as source:
        if source.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(source)
            names = _checked(file, reader.schema, known, paths)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).select(names)
        else:
            source.seek(0)
            stream = pa.ipc.open_stream(source)
            names = _checked(file, stream.schema, known, paths)
            for batch in stream:
                yield batch.select(names)


def _checked(
    file: Path, schema: "pa.Schema", known: Collection[str], paths: Sequence[str]
) -> list[str]:
    """The names of the known columns; DataError when there is no column with paths as text."""
    import pyarrow as pa

    names = [name for name in schema.names if name.lower() in known]
    found = [name for name in names if name.lower() in paths]
    if not found:
        raise DataError(
            f"{file}: the columns are {', '.join(schema.names)}; expected one of them to be "
            "'path' (others: label, split, start_seconds, end_seconds, frame_rate)"
        )
    kind = schema.field(found[0]).type
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(text) or pa.types.is_large_string(text)):
        raise DataError(
            f"{file}: the column {found[0]!r} has the type {kind}; expected paths as text. Videos "
            "as bytes can be read from tar shards"
        )
    return names


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
