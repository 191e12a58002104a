"""The features of a data set on disk: one array of float16, memory-mapped, and its videos.

A folder holds
- features.npy: (videos, views, steps, channels), float16
- times.npy: (videos, views, steps), float32, seconds from the start of the video; a time after its
  end shows the last frame
- manifest.jsonl and dataset.json: the videos in the same order, with label, split and status
- backbone/: the checkpoint that gave the features
- features.json: what a view is; written last, so it marks a complete folder

While the features are made, each process appends to its own journal, journal-<rank>.jsonl.
"""

import io
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pretrained_2d.atomic import write_bytes, write_text
from videopipe.dataset.manifest import Manifest, read_manifest
from videopipe.errors import DataError
from videopipe.probing.network import FeatureShape
from videopipe.system.status import USED

FEATURES, TIMES, ABOUT, BACKBONE = "features.npy", "times.npy", "features.json", "backbone"
FORMAT_VERSION = 1
FLUSH_ROWS, FLUSH_SECONDS = 16, 10.0  # so much work at most is repeated after a kill
Features = NDArray[np.float16]


@dataclass(frozen=True, kw_only=True)
class ViewLayout:
    """What the rows of a feature file are made of."""

    shape: FeatureShape
    views: int  # per video, mirrored ones included
    num_frames: int  # per view
    clip_seconds: float


@dataclass(frozen=True)
class FeatureSet:
    """A complete folder of features; `features` is mapped from disk."""

    features: Features  # (videos, views, steps, channels)
    manifest: Manifest  # the videos, in the order of the rows
    layout: ViewLayout
    backbone: Path  # a checkpoint folder


def read_features(folder: Path) -> FeatureSet:
    """Open a folder of features without loading them."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        if about["format"] != FORMAT_VERSION:
            raise DataError(
                f"{folder}: features of format {about['format']!r}, expected {FORMAT_VERSION}; "
                "make them again with this version of videopipe"
            )
        entry = about["layout"]
        layout = ViewLayout(**{**entry, "shape": FeatureShape(**entry["shape"])})
        features = np.load(folder / FEATURES, mmap_mode="r")
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} holds no complete features: {error.filename} is missing; run the stage "
            "`features` to its end"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}: the features are damaged ({error}); make them again") from None
    return FeatureSet(features, read_manifest(folder), layout, folder / BACKBONE)


def write_about(folder: Path, layout: ViewLayout, failed: Sequence[int]) -> None:
    """Mark the folder as complete; `failed` are rows that may succeed another time."""
    content = {"format": FORMAT_VERSION, "layout": asdict(layout), "failed": list(failed)}
    write_text(folder / ABOUT, json.dumps(content, indent=2) + "\n")


class FeatureWriter:
    """Writes rows of `features.npy` at their places, each known from a line of a journal.

    Several processes may write different rows of one file. Lines are appended after their rows are
    on disk, so that a row with a line is whole, also after a kill.
    """

    def __init__(self, folder: Path, shape: tuple[int, ...], rank: int) -> None:
        header = io.BytesIO()
        description = {"descr": "<f2", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, description)
        self._offset = len(header.getvalue())
        self._row_bytes = 2 * int(np.prod(shape[1:]))
        self._file = os.open(folder / FEATURES, os.O_RDWR | os.O_CREAT, 0o644)
        # The same bytes and the same size in every process and attempt.
        os.pwrite(self._file, header.getvalue(), 0)
        os.ftruncate(self._file, self._offset + shape[0] * self._row_bytes)
        self._journal = os.open(
            folder / f"journal-{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )
        self._lines: list[str] = [""]  # ends a line that a kill cut short
        self._flushed = time.monotonic()

    def write(self, index: int, features: Features | None, line: Mapping[str, Any]) -> None:
        """Write row `index` (zeros without features); `line` goes to the journal at a flush."""
        row = bytes(self._row_bytes) if features is None else features.astype("<f2").tobytes()
        os.pwrite(self._file, row, self._offset + index * self._row_bytes)
        self._lines.append(json.dumps({"index": index, **line}))
        is_due = time.monotonic() - self._flushed > FLUSH_SECONDS
        if is_due or len(self._lines) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Make the rows durable, then the journal."""
        os.fsync(self._file)
        os.write(self._journal, "".join(f"{line}\n" for line in self._lines).encode())
        os.fsync(self._journal)
        self._lines.clear()
        self._flushed = time.monotonic()

    def close(self) -> None:
        """Flush and close."""
        self.flush()
        os.close(self._file)
        os.close(self._journal)


def read_journals(folder: Path) -> dict[int, dict[str, Any]]:
    """The newest line of every row; a line that a kill cut short is left out."""
    found: dict[int, dict[str, Any]] = {}
    for path in sorted(folder.glob("journal-*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            known = found.get(entry["index"])
            if known is None or known["status"] not in USED or entry["status"] in USED:
                found[entry["index"]] = entry
    return found


def write_times(folder: Path, rows: Iterable[ArrayLike]) -> None:
    """Write `times.npy` from one (views, steps) array per video."""
    content = io.BytesIO()
    np.save(content, np.array([np.asarray(row, dtype=np.float32) for row in rows]))
    write_bytes(folder / TIMES, content.getvalue())
