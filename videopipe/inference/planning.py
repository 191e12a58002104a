"""Before the work: what is asked for, what is there already, and what is left to do."""

import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pretrained_2d.atomic import new_folder, write_bytes
from videopipe.errors import DataError, VideopipeError
from videopipe.inference.finished import Finished, changed_since, drop_rows, read_finished
from videopipe.inference.manifests import Source
from videopipe.inference.parts import list_parts, parts_folder, recover_journals
from videopipe.inference.sources import source_id

# Readers of a folder of tables pass over names that begin with an underscore.
RUN_FILE, COMMITTED = "_run.json", "_committed.json"
BASE_PART = "part-00000000-base-00000"
Identity = Mapping[str, Any]  # JSON: everything that decides the rows


@dataclass(frozen=True)
class Task:
    """A video that has no complete rows yet."""

    source: Source
    windows_done: int = 0  # finished in an earlier run


@dataclass(frozen=True)
class Plan:
    """The videos in order, and those of them still to do."""

    order: list[str]  # ids of all videos
    tasks: list[Task]

    def to_json(self) -> Any:
        """For the other processes."""
        tasks = [[*_fields(task.source), task.windows_done] for task in self.tasks]
        return {"order": self.order, "tasks": tasks}

    @classmethod
    def from_json(cls, content: Any) -> "Plan":
        """The same plan again."""
        tasks = [Task(Source(*entry[:3]), entry[3]) for entry in content["tasks"]]
        return cls(content["order"], tasks)


def _fields(source: Source) -> list[Any]:
    return list(asdict(source).values())


def summary_path(out: Path) -> Path:
    """The JSON beside the table."""
    return out.with_name(out.name + ".summary.json")


def make_plan(
    out: Path,
    identity: Identity,
    sources: Sequence[Source],
    schema: pa.Schema,
    *,
    overwrite: bool,
    retry_failed: bool = False,
) -> Plan:
    """What is left to do, after the leavings of killed runs have been put in order.

    Results of the same model and settings are kept and added to. Others are refused, or, with
    `overwrite`, replaced when the new table is complete. With `retry_failed` rows without scores
    are made anew. Nobody else may be writing the table.
    """
    folder = parts_folder(out)
    complete_commit(out)
    if folder.exists() and not _may_continue(folder / RUN_FILE, identity, out, overwrite):
        remove_folder(folder)
    if folder.exists():
        recover_journals(folder, schema, out.suffix)
        files = list_parts(folder, out.suffix)
    elif out.exists() and not overwrite:
        _may_continue(summary_path(out), identity, out, overwrite)
        files = [out]
    else:
        files = []
    finished = read_finished(files, schema)
    _refuse_other_videos(out, sources, finished)
    changed = changed_since(sources, finished)
    if retry_failed:
        ids = [source_id(source) for source in sources]
        changed |= {id_ for id_ in ids if id_ in finished and finished[id_].failed}
    tasks = []
    for source in sources:
        entry = finished.get(source_id(source))
        if entry is None or source_id(source) in changed:
            tasks.append(Task(source))
        elif not entry.complete:
            tasks.append(Task(source, entry.rows))
    if not folder.exists() and (tasks or files != [out]):
        _begin(folder, identity, base=out if files else None)
    if changed:
        drop_rows(list_parts(folder, out.suffix), changed, schema)
    return Plan([source_id(source) for source in sources], tasks)


def _begin(folder: Path, identity: Identity, base: Path | None) -> None:
    """A new folder of parts; a complete table to be added to is the first of them."""
    with new_folder(folder) as beside:
        write_bytes(beside / RUN_FILE, json.dumps({"identity": identity}, indent=2).encode())
        if base is not None:
            part = beside / (BASE_PART + base.suffix)
            try:
                part.hardlink_to(base)
            except OSError:  # a file system without links
                shutil.copy2(base, part)


def _may_continue(record: Path, identity: Identity, out: Path, overwrite: bool) -> bool:
    """Whether what is there was made as is asked now; refuses when it was not and must stay."""
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
            f"{out} exists, but {record} does not say how it was made; give another --out, or "
            "--overwrite to replace it"
        )
    changes = "\n  ".join(_differences(before, identity))
    raise VideopipeError(
        f"{out} holds predictions of another model or other settings:\n  {changes}\n"
        "Give another --out, the old settings, or --overwrite to replace them"
    )


def _differences(before: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        keys = sorted(before.keys() | now.keys())
        parts = [_differences(before.get(key), now.get(key), f"{name}.{key}") for key in keys]
        return [line for part in parts for line in part]
    return [] if before == now else [f"{name.lstrip('.')}: {before!r} then, {now!r} now"]


def _refuse_other_videos(
    out: Path, sources: Sequence[Source], finished: Mapping[str, Finished]
) -> None:
    """Rows of files that exist but are not asked for mean a mistyped --out or list."""
    listed = {source_id(source) for source in sources}
    others = [
        entry.path for id_, entry in finished.items() if id_ not in listed and _exists(entry.path)
    ]
    if others:
        raise DataError(
            f"{out} has rows of {len(others)} videos that are not among those given now, such as "
            f"{others[0]}. Give their paths as well, give another --out, or --overwrite"
        )


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except ValueError:  # a name no file can have
        return False


def commit(out: Path, merged: Path, summary: Mapping[str, Any]) -> None:
    """Put the complete table and its summary in place, and take the parts away.

    Once `_committed.json` is written, a kill in between is mended by the next run.
    """
    text = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    write_bytes(merged.with_name(COMMITTED), text.encode())
    complete_commit(out)


def complete_commit(out: Path) -> None:
    """Finish a `commit` that was begun; nothing to do without one."""
    folder = parts_folder(out)
    committed, merged = folder / COMMITTED, merged_path(out)
    if committed.exists():
        if merged.exists():
            merged.replace(out)
        write_bytes(summary_path(out), committed.read_bytes())
        remove_folder(folder)
    for leaving in out.parent.glob(f".{glob_escaped(folder.name)}.*.older"):
        shutil.rmtree(leaving, ignore_errors=True)


def merged_path(out: Path) -> Path:
    """Where the complete table is written before it takes its name."""
    return parts_folder(out) / f"_merged{out.suffix}"


def remove_folder(folder: Path) -> None:
    """Away with a folder, its name first, so that half of it is never taken for the whole."""
    leaving = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.older")
    folder.rename(leaving)
    shutil.rmtree(leaving, ignore_errors=True)


def glob_escaped(name: str) -> str:
    """A name that a pattern matches literally."""
    import glob

    return glob.escape(name)
