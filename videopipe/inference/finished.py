"""What earlier runs have finished: which rows stand, and which must be done again."""

import os
import stat
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from videopipe.data.content import content_id
from videopipe.inference.formats import as_rows
from videopipe.inference.manifests import Source
from videopipe.inference.parts import read_part, write_part
from videopipe.inference.sources import source_id

SCORED = ("ok", "partial")  # statuses of rows that hold scores
STAT_THREADS = 16  # waiting for a network disk, not for a processor


@dataclass(slots=True)
class Finished:
    """What stands in the parts about one source."""

    path: str
    content_id: str | None
    written_at: float  # seconds since 1970; when its part was completed
    rows: int = 0
    complete: bool = False
    failed: bool = False  # one of its rows is neither ok nor partial


def read_finished(files: Sequence[Path], schema: pa.Schema) -> dict[str, Finished]:
    """By id, what the given parts hold. A video whose last window is missing is not complete."""
    finished: dict[str, Finished] = {}
    for file in files:
        written_at = file.stat().st_mtime
        table = read_part(file, schema)
        windows = "last" in table.column_names
        lasts = table["last"].to_pylist() if windows else [True] * len(table)
        names = ("id", "path", "content_id", "status")
        columns = [table[name].to_pylist() for name in names]
        for id_, path, content, status, last in zip(*columns, lasts, strict=True):
            entry = finished.setdefault(id_, Finished(path, content, written_at))
            entry.rows += 1
            entry.complete = entry.complete or bool(last)
            entry.failed = entry.failed or status not in SCORED
            entry.written_at = min(entry.written_at, written_at)
    return finished


def changed_since(sources: Sequence[Source], finished: Mapping[str, Finished]) -> set[str]:
    """Ids of finished sources whose file is another one now."""
    known = [(source, finished.get(source_id(source))) for source in sources]
    pairs = [(source, entry) for source, entry in known if entry is not None]
    with ThreadPoolExecutor(STAT_THREADS) as threads:
        changed = threads.map(lambda pair: _changed(*pair), pairs)
        return {source_id(source) for (source, _), new in zip(pairs, changed, strict=True) if new}


def _changed(source: Source, entry: Finished) -> bool:
    """A look at the clock; only where the file is younger than its row, a look inside."""
    try:
        status = Path(source.path).stat()
    except OSError:
        return False  # gone, or still not there: what is known of it stands
    if entry.content_id is None:  # it could not be read then
        return stat.S_ISREG(status.st_mode) and os.access(source.path, os.R_OK)
    if max(status.st_mtime, status.st_ctime) <= entry.written_at:
        return False
    try:
        return content_id(Path(source.path)) != entry.content_id
    except OSError:
        return False


def drop_rows(files: Sequence[Path], ids: set[str], schema: pa.Schema) -> None:
    """Take the rows of these sources out of the parts, each part whole at every moment."""
    unwanted = pa.array(sorted(ids), pa.string())
    for file in files:
        table = read_part(file, schema)
        kept = table.filter(pc.invert(pc.is_in(table["id"], value_set=unwanted)))
        if len(kept) == 0:
            file.unlink()
        elif len(kept) < len(table):
            times = file.stat()
            write_part(file, list(as_rows(kept)), schema)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
