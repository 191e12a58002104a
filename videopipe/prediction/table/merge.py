"""Merge many parts into one table, in the order of the videos, with bounded memory."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pretrained_2d.atomic import sync_folder
from videopipe.errors import VideopipeError
from videopipe.prediction.table.formats import format_of
from videopipe.prediction.table.parts import explained, read_group, scan_part
from videopipe.prediction.table.table_format import RowGroup

Integers = NDArray[np.integer[Any]]
ROWS_PER_GROUP = 4096
BYTES_PER_GROUP = 16 * 2**20
CACHE_BYTES = 128 * 2**20
KEYS = ("id", "status", "start_seconds", "last")  # what decides the place of a row


def merge_parts(
    files: Sequence[Path],
    order: Sequence[int],
    schema: pa.Schema,
    target: Path,
    *,
    new_ids: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Write every row once to `target`, videos in `order`, windows by time; -> rows per status.

    `order` holds the ids of the videos as integers. Rows of other ids (videos that were removed
    after they were predicted) follow at the end, sorted by id. Rows with an id in `new_ids` (of
    older tables) get the new one.
    """
    groups = _GroupCache(files, schema)
    group_of, row_of, counts = _sorted_rows(groups, np.asarray(order, np.uint64), new_ids or {})

    def tables() -> Iterator[pa.Table]:
        start = 0
        if len(group_of):
            groups.read(int(group_of[0]))  # gives the size of a row
        while start < len(group_of):
            window = slice(start, start + groups.rows_per_group)
            numbers, rows = group_of[window], row_of[window]
            pieces, places = [], []
            for number in np.unique(numbers):
                chosen = np.flatnonzero(numbers == number)
                pieces.append(groups.read(int(number)).take(rows[chosen]))
                places.append(chosen)
            merged = pa.concat_tables(pieces).take(np.argsort(np.concatenate(places)))
            yield _with_new_ids(merged, new_ids) if new_ids else merged
            start += len(numbers)

    with explained(target.parent):
        format_of(target).save(target, schema, tables())
        sync_folder(target.parent)
    return counts


class _GroupCache:
    """The row groups of all files; the ones read last are kept, up to a number of bytes."""

    def __init__(self, files: Sequence[Path], schema: pa.Schema) -> None:
        self.files, self.schema = files, schema
        self.groups: list[tuple[Path, RowGroup]] = []
        self.rows_per_group = ROWS_PER_GROUP
        self._kept: OrderedDict[int, pa.Table] = OrderedDict()

    def scan(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Every group of every file, with these columns only; finds the groups."""
        schema = pa.schema([self.schema.field(name) for name in names])
        for file in self.files:
            for group, table in scan_part(file, schema):
                self.groups.append((file, group))
                yield table

    def read(self, number: int) -> pa.Table:
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        file, group = self.groups[number]
        table = self._kept[number] = read_group(file, self.schema, group)
        bytes_per_row = max(1, table.nbytes // max(1, len(table)))
        self.rows_per_group = min(ROWS_PER_GROUP, max(1, BYTES_PER_GROUP // bytes_per_row))
        while (
            len(self._kept) > 1 and sum(kept.nbytes for kept in self._kept.values()) > CACHE_BYTES
        ):
            self._kept.popitem(last=False)
        return table


def _sorted_rows(
    groups: _GroupCache, order: NDArray[np.uint64], new_ids: Mapping[str, str]
) -> tuple[Integers, Integers, dict[str, int]]:
    """Where each row of the result comes from, (group, row) in order; and rows per status.

    It keeps 17 bytes per row, 25 with windows.
    """
    pieces, codes = [], dict[str, int]()
    names = [name for name in KEYS if name in groups.schema.names]
    windows = "last" in names
    places = np.argsort(order, kind="stable")
    ordered = order[places]
    for number, table in enumerate(groups.scan(names)):
        ids = [int(new_ids.get(id_, id_), 16) for id_ in table["id"].to_pylist()]
        place = _places(np.array(ids, np.uint64), ordered, places)
        statuses = [codes.setdefault(name, len(codes)) for name in table["status"].to_pylist()]
        # A failure before the first window has no start.
        starts = [table["start_seconds"].fill_null(np.inf).to_numpy()] if windows else []
        rows = np.arange(len(table), dtype=np.int32)
        pieces.append(
            (np.full_like(rows, number), rows, np.array(statuses, np.uint8), place, *starts)
        )
    del places, ordered
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    del pieces
    group, row, status, place, *start = columns or 4 * [np.zeros(0, np.int32)]
    missing = len(order) - len(np.unique(place[place < len(order)]))
    if missing:
        raise VideopipeError(
            f"{missing} of {len(order)} videos have no row yet: a process of this run was killed. "
            "Give the same command again to resume"
        )
    rank = np.lexsort((*start, place))
    # A video has one row, or one row per start of a window; of duplicates one is kept.
    kept = np.ones(len(rank), bool)
    kept[1:] = np.diff(place[rank]) != 0
    for times in start:
        kept[1:] |= times[rank][1:] != times[rank][:-1]
    rank = rank[kept]
    numbers = np.bincount(status[rank], minlength=len(codes))
    counts = {name: int(numbers[code]) for name, code in sorted(codes.items()) if numbers[code]}
    return group[rank], row[rank], counts


def _places(
    ids: NDArray[np.uint64], ordered: NDArray[np.uint64], places: NDArray[np.int64]
) -> Integers:
    """The position of each id in the order of the videos; other ids come after all of them."""
    if not len(ordered):
        return len(ordered) + (ids >> np.uint64(2)).astype(np.int64)
    found = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
    others = len(ordered) + (ids >> np.uint64(2)).astype(np.int64)
    return np.where(ordered[found] == ids, places[found], others)


def _with_new_ids(table: pa.Table, new_ids: Mapping[str, str]) -> pa.Table:
    ids = [new_ids.get(id_, id_) for id_ in table["id"].to_pylist()]
    return table.set_column(table.schema.get_field_index("id"), "id", pa.array(ids, pa.string()))
