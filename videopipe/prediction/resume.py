"""Plan a run: the rows of earlier runs that are kept, and the videos that are left."""

import glob
import json
import os
import shutil
import uuid
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pretrained_2d.atomic import new_folder, write_bytes
from videopipe.dataset.lists.video_range import VideoRange, text_as_path
from videopipe.errors import DataError, VideopipeError
from videopipe.prediction.discovery import BackgroundListing
from videopipe.prediction.table.arrow_parts import SUFFIX as ARROW_SUFFIX
from videopipe.prediction.table.completed_rows import (
    CompletedVideo,
    drop_rows,
    find_changed,
    find_new_ids,
    read_completed,
)
from videopipe.prediction.table.formats import format_of
from videopipe.prediction.table.lance_dataset import table_schema
from videopipe.prediction.table.parts import (
    list_parts,
    parts_folder,
    recover_journals,
    scan_part,
)

# Readers of a folder of tables skip names that begin with an underscore.
RUN_FILE, COMMITTED = "_run.json", "_committed.json"
BASE_PART = "part-00000000-base-00000"
Identity = Mapping[str, Any]  # JSON: everything that decides the rows


@dataclass(frozen=True)
class VideoTask:
    """A video that has no complete rows yet."""

    video: VideoRange
    windows_done: int = 0  # finished in an earlier run

    def to_json(self) -> list[Any]:
        """For another process."""
        video = self.video
        start, end = video.start_seconds, video.end_seconds
        return [video.path, start, end, self.windows_done, video.frame_rate]

    @classmethod
    def from_json(cls, content: Sequence[Any]) -> "VideoTask":
        """The same task again."""
        return cls(VideoRange(content[0], content[1], content[2], content[4]), content[3])


@dataclass(frozen=True)
class PredictionPlan:
    """The videos in order, and those of them that are left to predict.

    For a new table the videos are still being found when prediction starts: they are those of
    `listing`, and `tasks` is empty.
    """

    order: Sequence[int]  # the ids of all videos, as integers
    tasks: Sequence[VideoTask] = ()
    new_ids: dict[str, str] = field(default_factory=dict)  # of rows of older tables
    listing: BackgroundListing | None = None

    @property
    def num_tasks(self) -> int | None:
        """How many videos are left; None while they are still being found."""
        if self.listing is None:
            return len(self.tasks)
        return len(self.listing.order) if self.listing.complete else None

    def to_json(self) -> Any:
        """For the other processes."""
        tasks = [task.to_json() for task in self.tasks]
        return {"order": list(self.order), "tasks": tasks, "new_ids": self.new_ids}

    @classmethod
    def from_json(cls, content: Any) -> "PredictionPlan":
        """The same plan again."""
        tasks = [VideoTask.from_json(task) for task in content["tasks"]]
        return cls(array("Q", content["order"]), tasks, content["new_ids"])


def summary_path(out: Path) -> Path:
    """The JSON beside the table."""
    return out.with_name(out.name + ".summary.json")


def find_parts(out: Path, identity: Identity, schema: pa.Schema, *, overwrite: bool) -> list[Path]:
    """The files of earlier runs to add to; journals of killed runs are turned into parts.

    Results of another model or other settings are refused, or, with `overwrite`, replaced when the
    new table is complete. No other run may be writing the table.
    """
    folder = parts_folder(out)
    complete_commit(out)
    if folder.exists() and not _may_continue(folder / RUN_FILE, identity, out, overwrite):
        remove_folder(folder)
    if folder.exists():
        recover_journals(folder, schema, out.suffix)
        return list_parts(folder, out.suffix)
    if out.exists() and not overwrite:
        _may_continue(summary_path(out), identity, out, overwrite)
        return [out]
    return []


def make_plan(
    out: Path,
    identity: Identity,
    videos: Sequence[VideoRange],
    schema: pa.Schema,
    files: Sequence[Path],
    *,
    retry_failed: bool = False,
    rows_per_window: int = 1,
) -> PredictionPlan:
    """What is left to do when the parts `files` exist; makes the folder of parts if needed.

    Videos that have changed are predicted again, with `retry_failed` those without scores too.
    """
    completed = read_completed(files, schema)
    new_ids = find_new_ids(videos, completed)
    dropped: set[str] = set()
    for old, new in new_ids.items():
        if new in completed:  # the same video twice, written in two ways
            dropped.add(old)
        else:
            completed[new] = completed[old]
        del completed[old]
    _refuse_other_videos(out, videos, completed)
    again = find_changed(videos, completed)
    if retry_failed:
        ids = (video.id for video in videos)
        again |= {id_ for id_ in ids if id_ in completed and completed[id_].failed}
    tasks = []
    for video in videos:
        entry = completed.get(video.id)
        if entry is None or video.id in again:
            tasks.append(VideoTask(video))
        elif not entry.complete:
            tasks.append(VideoTask(video, entry.rows // rows_per_window))
    dropped |= again | {old for old, new in new_ids.items() if new in again}
    if not parts_folder(out).exists() and (tasks or dropped or list(files) != [out]):
        begin_parts(out, identity, base=out if files else None)
    if dropped:
        drop_rows(list_parts(parts_folder(out), out.suffix), dropped, schema)
    return PredictionPlan(array("Q", (int(video.id, 16) for video in videos)), tasks, new_ids)


def begin_parts(out: Path, identity: Identity, base: Path | None = None) -> None:
    """Make the folder of parts; a complete table that is added to becomes the first part."""
    with new_folder(parts_folder(out)) as beside:
        write_bytes(beside / RUN_FILE, json.dumps({"identity": identity}, indent=2).encode())
        if base is not None and base.is_dir():
            _as_arrow(base, beside / f"{BASE_PART}{ARROW_SUFFIX}")
        elif base is not None:
            part = beside / (BASE_PART + base.suffix)
            try:
                part.hardlink_to(base)
            except OSError:  # a file system without links
                shutil.copy2(base, part)


def _as_arrow(base: Path, part: Path) -> None:
    """A table that is a folder as one Arrow part, with the same time of change."""
    schema, times = table_schema(base), base.stat()
    with part.open("wb") as file:
        tables = (table for _, table in scan_part(base, schema))
        format_of(part).write(file, schema, tables)
    os.utime(part, ns=(times.st_atime_ns, times.st_mtime_ns))


def _may_continue(record: Path, identity: Identity, out: Path, overwrite: bool) -> bool:
    """Whether the table was made with the same model and settings; raises when it must be kept."""
    try:
        before = json.loads(record.read_text())["identity"]
    except (OSError, ValueError, KeyError):
        before = None
    if before == json.loads(json.dumps(identity)):
        return True
    if overwrite:
        return False
    if before is None:
        raise VideopipeError(
            f"{out} exists, but {record} does not record how it was made; give another --out, or "
            "--overwrite to replace it"
        )
    changes = "\n  ".join(_differences(before, identity))
    raise VideopipeError(
        f"{out} holds rows of another model or other settings:\n  {changes}\n"
        "Give another --out, the old settings, or --overwrite to replace them"
    )


def _differences(before: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        keys = sorted(before.keys() | now.keys())
        parts = [_differences(before.get(key), now.get(key), f"{name}.{key}") for key in keys]
        return [line for part in parts for line in part]
    return [] if before == now else [f"{name.lstrip('.')}: {before!r} then, {now!r} now"]


def _refuse_other_videos(
    out: Path, videos: Iterable[VideoRange], completed: Mapping[str, CompletedVideo]
) -> None:
    """Rows of existing files that are not given now mean a mistyped --out or list."""
    listed = {video.id for video in videos}
    others = [
        entry.path for id_, entry in completed.items() if id_ not in listed and _exists(entry.path)
    ]
    if others:
        raise DataError(
            f"{out} has rows of {len(others)} videos that are not among those given now, such as "
            f"{others[0]}. Give their paths as well, give another --out, or --overwrite"
        )


def _exists(text: str) -> bool:
    try:
        return Path(text_as_path(text)).exists()
    except ValueError:  # not a valid file name
        return False


def commit(out: Path, merged: Path, summary: Mapping[str, Any]) -> None:
    """Put the complete table and its summary in place, and remove the parts.

    After `_committed.json` is written, the next run completes a commit that was interrupted.
    """
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    # A name that is not UTF-8 becomes \\udcNN, which JSON reads back as the same name.
    write_bytes(merged.with_name(COMMITTED), text.encode("utf-8", "backslashreplace"))
    complete_commit(out)


def complete_commit(out: Path) -> None:
    """Finish a `commit` that was interrupted, if there is one."""
    folder = parts_folder(out)
    committed, merged = folder / COMMITTED, merged_path(out)
    if committed.exists():
        if merged.exists():
            if out.is_dir():  # a folder is not replaced by a rename
                out.rename(out.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.older"))
            merged.replace(out)
        write_bytes(summary_path(out), committed.read_bytes())
        remove_folder(folder)
    for older in out.parent.glob(f".{glob.escape(folder.name)}.*.older"):
        shutil.rmtree(older, ignore_errors=True)


def merged_path(out: Path) -> Path:
    """Where the complete table is written before it is renamed."""
    return parts_folder(out) / f"_merged{out.suffix}"


def remove_folder(folder: Path) -> None:
    """Rename a folder, then remove it, so that an incomplete folder is never read."""
    older = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.older")
    folder.rename(older)
    shutil.rmtree(older, ignore_errors=True)
