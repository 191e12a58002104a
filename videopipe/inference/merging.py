"""Many parts into one table, in the order of the videos, with bounded memory."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pretrained_2d.atomic import sync_folder
from videopipe.errors import VideopipeError
from videopipe.inference.formats import format_of
from videopipe.inference.parts import explained, read_part

Integers = NDArray[np.int64]
ROWS_PER_GROUP = 4096
PARTS_IN_MEMORY = 16


def merge_parts(
    files: Sequence[Path], positions: Mapping[str, int], schema: pa.Schema, target: Path
) -> dict[str, int]:
    """Write every row once to `target`, videos by position, windows by time; -> rows per status.

    `positions` maps a row's id to its place. Rows of ids it does not name (videos that have gone
    since they were predicted) follow at the end, in the order of their ids.
    """

    @lru_cache(PARTS_IN_MEMORY)
    def table(number: int) -> pa.Table:
        return read_part(files[number], schema)

    file_of, row_of, counts = _sorted_rows(map(table, range(len(files))), positions)

    def groups() -> Iterator[pa.Table]:
        for start in range(0, len(file_of), ROWS_PER_GROUP):
            window = slice(start, start + ROWS_PER_GROUP)
            numbers, rows = file_of[window], row_of[window]
            pieces, places = [], []
            for number in np.unique(numbers):
                chosen = np.flatnonzero(numbers == number)
                pieces.append(table(int(number)).take(rows[chosen]))
                places.append(chosen)
            yield pa.concat_tables(pieces).take(np.argsort(np.concatenate(places)))

    with explained(target.parent):
        beside = target.with_name(f".{target.name}.partial")
        try:
            with beside.open("wb") as file:
                format_of(target).write(file, schema, groups())
                file.flush()
                os.fsync(file.fileno())
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(target.parent)
    return counts


def _sorted_rows(
    tables: Iterable[pa.Table], positions: Mapping[str, int]
) -> tuple[Integers, Integers, dict[str, int]]:
    """Where each row of the result comes from: (file, row) in order; and rows per status."""
    pieces, counts_by_row = [], []
    for number, table in enumerate(tables):
        windows = "last" in table.column_names
        place = np.array([_position(id_, positions) for id_ in table["id"].to_pylist()], np.int64)
        start = np.zeros(len(table))
        if windows:  # a failure before the first window has no start
            start = table["start_seconds"].fill_null(np.inf).to_numpy()
        pieces.append((np.full(len(table), number), np.arange(len(table)), place, start))
        counts_by_row.append(table["status"].to_numpy())
    if not pieces:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), {}
    file, row, place, start = (np.concatenate(column) for column in zip(*pieces, strict=True))
    missing = len(positions) - len(np.unique(place[place < len(positions)]))
    if missing:
        raise VideopipeError(
            f"{missing} of {len(positions)} videos have no row yet: a process of this run was "
            "ended. Give the same command again to go on"
        )
    order = np.lexsort((start, place))
    # Two processes never do the same video; should it happen all the same, one row stays.
    same = (np.diff(place[order]) == 0) & (start[order][1:] == start[order][:-1])
    order = order[np.concatenate(([True], ~same))]
    found, numbers = np.unique(np.concatenate(counts_by_row)[order].astype(str), return_counts=True)
    counts = {str(name): int(count) for name, count in zip(found, numbers, strict=True)}
    return file[order], row[order], counts


def _position(id_: str, positions: Mapping[str, int]) -> int:
    """Places of ids that are not named lie behind all others."""
    place = positions.get(id_)
    return len(positions) + (int(id_, 16) >> 2) if place is None else place
