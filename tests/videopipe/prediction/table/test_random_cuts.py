"""Parts and journals under random kills: every row that was added is in the table once."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.videopipe.prediction.table.test_parts import COLUMNS, row
from videopipe.prediction.table.merge import merge_parts
from videopipe.prediction.table.parts import (
    PartWriter,
    list_parts,
    read_part,
    recover_journals,
)
from videopipe.prediction.table.table_format import as_rows

SCHEMA = COLUMNS.schema()
# One process each: rows added before it is killed, rows per part, bytes of a line cut off in the
# middle, and whether the kill came between writing a part and removing its journal.
lives = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 4), st.integers(0, 400), st.booleans()),
    min_size=1, max_size=5,
)  # fmt: skip


def add_until_killed(
    folder: Path, run: int, first: int, life: tuple[int, int, int, bool], suffix: str
) -> int:
    """Add rows from `first` on as one process that is killed; returns the number of rows."""
    added, rows_per_part, cut, between = life
    writer = PartWriter(folder, f"run-{run}", SCHEMA, suffix, rows_per_part=rows_per_part)
    for number in range(first, first + added):
        writer.add(row(number))
    journal = next(folder.glob("*.journal"), None)
    if journal is not None:
        whole = journal.read_bytes()
        if between:
            writer.finish_part()
        half_a_line = whole[: min(cut, whole.index(b"\n"))]
        journal.write_bytes(whole + half_a_line)
    return added


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@settings(max_examples=15, deadline=None)
@given(lives=lives, order_seed=st.randoms(use_true_random=False))
def test_no_row_is_lost_or_doubled(lives, order_seed, suffix: str) -> None:
    with tempfile.TemporaryDirectory() as top:
        folder, done = Path(top, "parts"), 0
        folder.mkdir()
        for run, life in enumerate(lives):
            done += add_until_killed(folder, run, done, life, suffix)
            recover_journals(folder, SCHEMA, suffix)
            assert not list(folder.glob("*.journal"))
            parts = list_parts(folder, suffix)
            found = [r for part in parts for r in as_rows(read_part(part, SCHEMA))]
            assert sorted(r["id"] for r in found) == [f"{n:016x}" for n in range(done)]
        order = list(range(done))
        order_seed.shuffle(order)
        counts = merge_parts(list_parts(folder, suffix), order, SCHEMA, Path(top, f"all{suffix}"))
        merged = list(as_rows(read_part(Path(top, f"all{suffix}"), SCHEMA)))
        assert merged == [row(number) for number in order]
        assert counts == ({"ok": done} if done else {})


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 2**14), st.integers(1, 600), st.binary(max_size=3))),
)
def test_a_journal_damaged_by_a_power_failure_gives_back_its_whole_lines(
    count: int, damages: list[tuple[int, int, bytes]]
) -> None:
    """With blocks of NUL or other bytes anywhere, damaged rows may be lost; no row is wrong."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        writer = PartWriter(folder, "run-0", SCHEMA, ".parquet", rows_per_part=100)
        for number in range(count):
            writer.add(row(number))
        (journal,) = folder.glob("*.journal")
        whole = journal.read_bytes()
        lines, raw = whole.splitlines(keepends=True), bytearray(whole)
        for place, length, byte in damages:
            at = place % len(raw)
            length = min(length, len(raw) - at)
            raw[at : at + length] = ((byte or b"\0") * length)[:length]
        journal.write_bytes(bytes(raw))
        place, untouched = 0, []
        for number, line in enumerate(lines):
            alone = place == 0 or raw[place - 1 : place] == b"\n"
            if raw[place : place + len(line)] == line and alone:
                untouched.append(row(number))
            place += len(line)
        recover_journals(folder, SCHEMA, ".parquet")
        parts = list_parts(folder, ".parquet")
        found = [r for part in parts for r in as_rows(read_part(part, SCHEMA))]
        assert all(expected in found for expected in untouched)
        assert not list(folder.glob("*.journal"))
