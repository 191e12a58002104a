"""The manifest of a data set: every video with its label, split, length and health.

A manifest is a folder with `manifest.jsonl`, one video per line, and `dataset.json`, the properties
of the data set. `videopipe check` and the `decode` stage write it; training, evaluation and
prediction read it, so that no file is inspected twice.
"""

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pretrained_2d.atomic import write_text
from videopipe.errors import DataError
from videopipe.system.status import FAILED_BEFORE, USED, VideoStatus
from videopipe.video.frame_folder import CODEC as FRAMES

USABLE: frozenset[str] = frozenset({*USED, "unknown"})
RECORDS_FILE = "manifest.jsonl"
DATASET_FILE = "dataset.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class VideoRecord:
    """One video, or a range of it. Properties that are not known yet are None."""

    path: str
    label: int | None = None  # index in the labels of the manifest
    labels: tuple[int, ...] | None = None  # of multi-label data, instead of `label`; may be empty
    split: str | None = None  # "train", "val", "test" or "unused"
    group: str | None = None  # the film, person or recording it was cut from
    start_seconds: float | None = None  # of a range of the file
    end_seconds: float | None = None

    status: VideoStatus = "unknown"
    reason: str = ""  # of a failure, or the problems of the file
    duration_seconds: float | None = None  # of the part that can be decoded
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
    frames_path: str | None = None  # the cached video at training size

    @property
    def usable(self) -> bool:
        """Whether clips can be taken from it."""
        return self.status in USABLE

    @property
    def labelled(self) -> bool:
        """Whether it has a label, or a list of labels, which may be empty."""
        return self.label is not None or self.labels is not None

    @property
    def given_rate(self) -> float | None:
        """The frame rate of a folder of frames, which the user gave; None for files."""
        return self.frame_rate if self.codec == FRAMES else None

    @property
    def span_seconds(self) -> tuple[float, float]:
        """Start and end of the range; the end is infinite when it is not known."""
        end = float("inf") if self.duration_seconds is None else self.duration_seconds
        start = min(self.start_seconds or 0.0, end)
        return start, end if self.end_seconds is None else max(start, min(end, self.end_seconds))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The videos of a data set."""

    labels: tuple[str, ...]
    records: tuple[VideoRecord, ...]
    root: Path  # the folder of the videos
    source: Path | None = None  # the given path: that folder, or a list in it
    val_is_test: bool = False  # the paper's protocol: validation on the test split
    layout: str = ""  # the recognised layout, for the user
    depth: str = ""  # of the inspection: "", "header", "sampled" or "full"
    extra: tuple[str, ...] = field(default=())  # files that are in no list

    @property
    def multi_label(self) -> bool:
        """Whether a video may show several classes, or none."""
        return any(record.labels is not None for record in self.records)

    @property
    def unusable(self) -> tuple[VideoRecord, ...]:
        """Videos that cannot be used, each with its reason."""
        return tuple(record for record in self.records if not record.usable)

    def counts(self) -> dict[str, int]:
        """How many videos each split has, and how many are left out of it."""
        usable = Counter(record.split or "unsplit" for record in self.records if record.usable)
        lost = Counter(f"{record.split or 'unsplit'}_left_out" for record in self.unusable)
        return dict(sorted((usable + lost).items()))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write both files atomically.

    Paths of videos are stored relative to the root and paths of cached frames relative to the
    folder, so that either may move.
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
    """Read a manifest; `root` is the folder of the videos if they have moved."""
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
            f"{folder} is not a manifest: {error.filename} is missing; "
            f"make one with `videopipe check DATA --out {folder}`"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # no JSON, other types
        raise DataError(f"{folder}: the manifest is damaged ({error}); write it again") from None


def record_from(row: dict[str, Any], root: Path, folder: Path) -> VideoRecord:
    """A record from its line; paths are joined to the root or, for cached frames, the folder."""
    record = VideoRecord(**{name: value for name, value in row.items() if name in _NAMES})
    if row.get("status") == FAILED_BEFORE:
        record = replace(record, status="error")
    if record.labels is not None:
        record = replace(record, labels=tuple(record.labels))
    cached = record.frames_path
    return replace(
        record,
        path=str(root / record.path),
        frames_path=None if cached is None else str(folder / cached),
    )


_NAMES = {item.name for item in fields(VideoRecord)}
_DEFAULTS = asdict(VideoRecord(path=""))


def _row(record: VideoRecord, root: Path, folder: Path) -> dict[str, Any]:
    """Only the fields that are not at their default, so that lines stay short."""
    row = {name: value for name, value in asdict(record).items() if value != _DEFAULTS[name]}
    if record.frames_path is not None:
        row["frames_path"] = _below(record.frames_path, folder)
    return row | {"path": _below(record.path, root)}


def _below(path: str, root: Path) -> str:
    absolute, base = os.path.abspath(path), os.path.abspath(root)  # noqa: PTH100
    prefix = f"{base}{os.sep}"
    return absolute[len(prefix) :] if absolute.startswith(prefix) else absolute
