"""The index of a data set: every video with its label, split, length and health.

A manifest is a folder with `manifest.jsonl`, one video per line, and `dataset.json`, what is true
of all of them. `videopipe check` and the `decode` stage write it; training, evaluation and
prediction read it, so that no file is looked at twice.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from pretrained_2d.atomic import write_text
from videopipe.errors import DataError

Status = Literal["unknown", "ok", "partial", "failed", "missing"]
USABLE: frozenset[str] = frozenset({"ok", "partial", "unknown"})
RECORDS_FILE = "manifest.jsonl"
DATASET_FILE = "dataset.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class VideoRecord:
    """One video, or one stretch of it. What has not been looked at is None."""

    path: str
    label: int | None = None  # its place in the labels of the manifest
    split: str | None = None  # "train", "val", "test" or "unused"
    group: str | None = None  # the film, person or recording it was cut from
    start_seconds: float | None = None  # where only a stretch of the file is meant
    end_seconds: float | None = None

    status: Status = "unknown"  # "partial": used as far as it decodes
    reason: str = ""  # why it failed, or what is wrong with it
    duration_seconds: float | None = None  # of what decodes, from the first frame
    frame_rate: float | None = None
    num_frames: int | None = None
    height: int | None = None
    width: int | None = None
    codec: str = ""
    rotation_degrees: int = 0
    variable_rate: bool | None = None
    content_id: str | None = None
    size_bytes: int | None = None
    modified_ns: int | None = None
    frames_path: str | None = None  # where its frames are cached at training size

    @property
    def usable(self) -> bool:
        """Whether clips can be drawn from it."""
        return self.status in USABLE

    @property
    def span_seconds(self) -> tuple[float, float]:
        """From where to where it may be looked at; the end is infinite when not known."""
        end = float("inf") if self.duration_seconds is None else self.duration_seconds
        start = min(self.start_seconds or 0.0, end)
        return start, end if self.end_seconds is None else max(start, min(end, self.end_seconds))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A data set as it was found."""

    labels: tuple[str, ...]
    records: tuple[VideoRecord, ...]
    root: Path  # the folder of the videos
    source: Path | None = None  # what was given: that folder, or a list in it
    val_is_test: bool = False  # the paper's protocol: validation on the test split
    layout: str = ""  # how it was recognised, in words
    depth: str = ""  # how closely the files were looked at: "", "header", "sampled" or "full"
    extra: tuple[str, ...] = field(default=())  # files that no list names

    def of_split(self, split: str) -> tuple[VideoRecord, ...]:
        """The usable videos of a split; an unknown split is an error that lists the known ones."""
        known = Counter(record.split for record in self.records)
        if split == "val" and self.val_is_test:
            split = "test"
        if split not in known:
            names = ", ".join(f"{name} ({count})" for name, count in known.items())
            raise DataError(
                f"{self.root}: there is no split {split!r}; there are: {names or 'no videos'}"
            )
        return tuple(r for r in self.records if r.split == split and r.usable)

    @property
    def unusable(self) -> tuple[VideoRecord, ...]:
        """Videos that are left out, each with its reason."""
        return tuple(record for record in self.records if not record.usable)

    def counts(self) -> dict[str, int]:
        """How many videos each split has, and how many are left out of it."""
        usable = Counter(record.split or "unsplit" for record in self.records if record.usable)
        lost = Counter(f"{record.split or 'unsplit'}_left_out" for record in self.unusable)
        return dict(sorted((usable + lost).items()))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write both files, each whole or not at all.

    Paths of videos are kept relative to the root, those of cached frames to the folder, so that
    either may move.
    """
    root = manifest.root.absolute()
    lines = [json.dumps(_row(record, root, folder)) for record in manifest.records]
    about = {
        "format": FORMAT_VERSION,
        "root": str(root),
        "source": str((manifest.source or root).absolute()),
        "val_is_test": manifest.val_is_test,
        "layout": manifest.layout,
        "depth": manifest.depth,
        "labels": list(manifest.labels),
        "counts": manifest.counts(),
        "extra": list(manifest.extra),
    }
    write_text(folder / RECORDS_FILE, "".join(f"{line}\n" for line in lines))
    write_text(folder / DATASET_FILE, json.dumps(about, indent=1) + "\n")


def read_manifest(folder: Path, root: Path | None = None) -> Manifest:
    """Read a manifest; `root` says where the videos lie now, if they have moved since."""
    try:
        about = json.loads((folder / DATASET_FILE).read_text(encoding="utf-8"))
        text = (folder / RECORDS_FILE).read_text(encoding="utf-8")
        if about["format"] != FORMAT_VERSION:
            raise DataError(
                f"{folder}: manifest format {about['format']!r}, expected {FORMAT_VERSION}; "
                f"write it again with this version of videopipe"
            )
        base = Path(about["root"]) if root is None else root
        records = tuple(record_from(json.loads(line), base, folder) for line in text.splitlines())
        return Manifest(
            labels=tuple(about["labels"]),
            records=records,
            root=base,
            source=Path(about["source"]) if root is None else root,
            val_is_test=about["val_is_test"],
            layout=about["layout"],
            depth=about["depth"],
            extra=tuple(about["extra"]),
        )
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} is no manifest: {error.filename} is missing; "
            f"make one with `videopipe check DATA --out {folder}`"
        ) from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: the manifest is damaged ({error}); write it again") from None


def record_from(row: dict[str, Any], root: Path, folder: Path) -> VideoRecord:
    """A record from its line, with whole paths: videos below the root, frames in the folder."""
    record = VideoRecord(**{name: value for name, value in row.items() if name in _NAMES})
    cached = record.frames_path
    return replace(
        record,
        path=str(root / record.path),
        frames_path=None if cached is None else str(folder / cached),
    )


def with_labels(records: Iterable[VideoRecord], labels: Sequence[str]) -> list[str]:
    """The label of each record in words; "" where it has none."""
    return ["" if record.label is None else labels[record.label] for record in records]


_NAMES = {item.name for item in fields(VideoRecord)}
_DEFAULTS = asdict(VideoRecord(path=""))


def _row(record: VideoRecord, root: Path, folder: Path) -> dict[str, Any]:
    """Only what is known, so that lines stay short."""
    row = {name: value for name, value in asdict(record).items() if value != _DEFAULTS[name]}
    if record.frames_path is not None:
        row["frames_path"] = _below(record.frames_path, folder)
    return row | {"path": _below(record.path, root)}


def _below(path: str, root: Path) -> str:
    absolute, base = os.path.abspath(path), os.path.abspath(root)  # noqa: PTH100
    prefix = f"{base}{os.sep}"
    return absolute[len(prefix) :] if absolute.startswith(prefix) else absolute
