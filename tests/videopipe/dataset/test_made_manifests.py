"""Manifests made by hypothesis are read back the same; damage is a DataError."""

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from videopipe.dataset.manifest import Manifest, VideoRecord, read_manifest, write_manifest
from videopipe.errors import DataError
from videopipe.system.status import VideoStatus

# What file names are made of: any bytes but "/" and NUL, decoded with surrogates.
names = st.binary(min_size=1, max_size=12).map(
    lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_").decode("utf-8", "surrogateescape")
).filter(lambda name: name not in {".", ".."})  # fmt: skip
seconds = st.none() | st.floats(0, 1e6)
counts = st.none() | st.integers(0, 2**40)
records = st.builds(
    VideoRecord,
    path=st.lists(names, min_size=1, max_size=3).map("/".join),
    label=st.none() | st.integers(0, 3),
    labels=st.none() | st.lists(st.integers(0, 3), max_size=3).map(tuple),
    split=st.none() | st.sampled_from(["train", "val", "test", "unused"]),
    group=st.none() | names,
    start_seconds=seconds,
    end_seconds=seconds,
    status=st.sampled_from(get_args(VideoStatus)),
    reason=st.text(max_size=8),
    duration_seconds=seconds,
    frame_rate=seconds,
    num_frames=counts,
    height=counts,
    width=counts,
    codec=st.sampled_from(["", "h264", "frames"]),
    rotation_degrees=st.sampled_from([0, 90, 180, 270]),
    variable_rate=st.none() | st.booleans(),
    content_id=st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
    size_bytes=counts,
    modified_ns=counts,
    frames_path=st.none() | names,
)


def placed(record: VideoRecord, root: Path, folder: Path) -> VideoRecord:
    """The record with absolute paths, as a manifest holds it."""
    cached = None if record.frames_path is None else str(folder / record.frames_path)
    return VideoRecord(**{**vars(record), "path": str(root / record.path), "frames_path": cached})


def manifest_of(found: list[VideoRecord], root: Path, folder: Path) -> Manifest:
    return Manifest(
        labels=("a", "b", "é", "\udcff"),
        records=tuple(placed(record, root, folder) for record in found),
        root=root,
        source=root,
        layout="class_folders",
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(records, max_size=4))
def test_a_manifest_reads_back_the_same_and_may_move(found: list[VideoRecord]) -> None:
    with tempfile.TemporaryDirectory() as top:
        root, folder, elsewhere = Path(top, "videos"), Path(top, "index"), Path(top, "other")
        folder.mkdir()
        manifest = manifest_of(found, root, folder)
        write_manifest(folder, manifest)
        assert read_manifest(folder) == manifest
        folder = folder.rename(Path(top, "moved"))
        assert read_manifest(folder, elsewhere).records == tuple(
            placed(record, elsewhere, folder) for record in found
        )


@settings(max_examples=30, deadline=None)
@given(st.lists(records, min_size=1, max_size=3), st.integers(0, 2**16), st.binary(max_size=4))
def test_a_damaged_manifest_is_read_or_refused(
    found: list[VideoRecord], place: int, inserted: bytes
) -> None:
    """A manifest cut or overwritten anywhere is read, or raises DataError."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top)
        write_manifest(folder, manifest_of(found, Path("/videos"), folder))
        for name in ("manifest.jsonl", "dataset.json"):
            whole = (folder / name).read_bytes()
            at = place % (len(whole) + 1)
            for damaged in (whole[:at], whole[:at] + inserted + whole[at:]):
                (folder / name).write_bytes(damaged)
                with suppress(DataError):
                    read_manifest(folder)
            (folder / name).write_bytes(whole)
