"""Making a manifest: find the videos of a data set and inspect those that are new or changed."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from videopipe.dataset.inspection import Depth, inspect_records, with_file_facts
from videopipe.dataset.layouts.division import Division, Layout
from videopipe.dataset.layouts.recognise import find_dataset
from videopipe.dataset.manifest import (
    RECORDS_FILE,
    Manifest,
    VideoRecord,
    read_manifest,
    record_from,
)
from videopipe.system.progress import progress

PROGRESS_FILE = "inspected.jsonl"  # records of an interrupted run
DEPTHS: tuple[Depth, ...] = ("header", "sampled", "full")
# Properties of the file, as opposed to its place in the data set.
HEALTH_FIELDS = (
    "status",
    "reason",
    "duration_seconds",
    "frame_rate",
    "num_frames",
    "height",
    "width",
    "codec",
    "rotation_degrees",
    "variable_rate",
    "content_id",
    "size_bytes",
    "modified_ns",
)


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """How much of every file is decoded, and by how many processes."""

    depth: Depth = "sampled"
    workers: int = 2
    timeout_seconds: float = 60.0


def index_dataset(
    data: Path,
    *,
    layout: Layout = "auto",
    division: Division | None = None,
    inspection: Inspection,
    folder: Path | None = None,
    frame_rate: float | None = None,
) -> Manifest:
    """The manifest of a data set, with every file inspected.

    `data` may be the folder of an older manifest: its videos are split again, and files that have
    not changed are not inspected again. `frame_rate` is that of folders of frames. Records are
    saved in `folder` while they are made, so that an interrupted run resumes there.
    """
    known: dict[str, VideoRecord] = {}
    manifest = None
    if (data / RECORDS_FILE).is_file():
        older = read_manifest(data)
        if DEPTHS.index(inspection.depth) <= _depth_of(older):
            known |= {record.path: record for record in older.records}
        manifest = older
        if older.source is not None and older.source.exists() and older.source != data:
            manifest = find_dataset(older.source, layout, division, frame_rate)
    manifest = manifest or find_dataset(data, layout, division, frame_rate)
    kept = None if folder is None else folder / f"{inspection.depth}_{PROGRESS_FILE}"
    if kept is not None and kept.is_file():
        known |= {record.path: record for record in _read_kept(kept)}
    records = _inspect(manifest.records, known, inspection, kept)
    return replace(manifest, records=records, depth=inspection.depth)


def _depth_of(manifest: Manifest) -> int:
    return DEPTHS.index(manifest.depth) if manifest.depth in DEPTHS else -1


def _inspect(
    records: Iterable[VideoRecord],
    known: dict[str, VideoRecord],
    inspection: Inspection,
    kept: Path | None,
) -> tuple[VideoRecord, ...]:
    """All records in their order, inspected now or before."""
    listed = list(records)
    by_path: dict[str, VideoRecord] = {}  # a file with several ranges is inspected once
    for record in listed:
        earlier = known.get(record.path)
        if earlier is not None and _unchanged(record, earlier):
            by_path[record.path] = earlier
    todo = {r.path: r for r in listed if r.path not in by_path and r.status != "missing"}
    if todo:
        by_path |= _inspect_files(list(todo.values()), inspection, kept)
    return tuple(_with_health(record, by_path.get(record.path)) for record in listed)


def _inspect_files(
    todo: list[VideoRecord], inspection: Inspection, kept: Path | None
) -> dict[str, VideoRecord]:
    found: dict[str, VideoRecord] = {}
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
    with progress("checking", total=len(todo), unit="videos") as bar:
        lost = 0
        for record in inspect_records(
            todo,
            depth=inspection.depth,
            workers=min(inspection.workers, len(todo)),
            timeout_seconds=inspection.timeout_seconds,
        ):
            found[record.path] = record
            lost += not record.usable
            if kept is not None:
                with kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(record)) + "\n")
            bar.advance(1, f"{lost} unreadable" if lost else "")
    return found


def write_known(folder: Path, depth: Depth, records: Iterable[VideoRecord]) -> None:
    """Write records to `folder`, so that `index_dataset` does not inspect these files again."""
    lines = "".join(json.dumps(asdict(record)) + "\n" for record in records)
    (folder / f"{depth}_{PROGRESS_FILE}").write_text(lines, encoding="utf-8")


def _read_kept(kept: Path) -> list[VideoRecord]:
    """The records of an interrupted run; the last line may be incomplete."""
    records = []
    for line in kept.read_text(encoding="utf-8").splitlines():
        try:
            records.append(record_from(json.loads(line), Path(), Path()))
        except (json.JSONDecodeError, TypeError):
            continue
    return records


def _unchanged(record: VideoRecord, earlier: VideoRecord) -> bool:
    now = with_file_facts(record)
    return (
        earlier.status not in ("unknown", "missing")
        and now.size_bytes is not None
        and (now.size_bytes, now.modified_ns) == (earlier.size_bytes, earlier.modified_ns)
    )


def _with_health(record: VideoRecord, seen: VideoRecord | None) -> VideoRecord:
    if seen is None:
        return record
    return replace(record, **{name: getattr(seen, name) for name in HEALTH_FIELDS})
