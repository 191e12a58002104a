"""Manifests: every file is inspected once, and every unusable file is recorded."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from videopipe.dataset import indexing
from videopipe.dataset.health import count_kinds, health_findings, num_lost
from videopipe.dataset.indexing import Inspection, index_dataset
from videopipe.dataset.layouts.division import Division
from videopipe.dataset.manifest import Manifest, VideoRecord, read_manifest, write_manifest
from videopipe.errors import DataError

quick = Inspection(depth="full", workers=2, timeout_seconds=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, tiny_video: Callable) -> Path:
    """Two classes, and a file with each kind of problem."""
    root = tmp_path_factory.mktemp("data")
    good = tiny_video(root / "train/run/a.mp4", num_frames=40, frame_rate=10.0)
    tiny_video(root / "train/walk/b.mp4", num_frames=45, frame_rate=10.0)
    tiny_video(root / "test/walk/short.mp4", num_frames=5, frame_rate=10.0)
    shutil.copy(good, root / "test/walk/copy of a.mp4")
    (root / "test/run").mkdir()
    (root / "test/run/empty.mp4").write_bytes(b"")
    (root / "test/run/text.mp4").write_text("not a video")
    os.mkfifo(root / "test/run/pipe.mp4")
    return root


@pytest.fixture(scope="module")
def manifest(data: Path) -> Manifest:
    return index_dataset(data, division=Division(validation="none"), inspection=quick)


def test_every_video_has_its_properties(manifest: Manifest) -> None:
    facts = {Path(record.path).name: record for record in manifest.records}
    assert len(facts) == 7
    a = facts["a.mp4"]
    assert (a.status, a.num_frames, a.height, a.width) == ("ok", 40, 32, 48)
    assert (a.duration_seconds, a.frame_rate) == pytest.approx((4.0, 10.0), abs=1e-3)
    assert a.variable_rate is False
    assert {name: record.reason for name, record in facts.items() if not record.usable} == {
        "empty.mp4": "the file is empty",
        "text.mp4": "cannot be opened as a video (Invalid data found when processing input)",
        "pipe.mp4": "is not a file (a folder, a pipe or a device)",
    }
    assert manifest.counts() == {"test": 2, "test_left_out": 3, "train": 2}


def test_findings(manifest: Manifest) -> None:
    findings = health_findings(manifest, clip_seconds=2.0)
    assert count_kinds(findings) == {
        "empty": 1,
        "unreadable": 2,
        "duplicate across splits": 1,
        "too short": 1,
    }
    assert num_lost(findings) == 3


def test_a_manifest_is_read_back_as_written(manifest: Manifest, tmp_path: Path) -> None:
    write_manifest(tmp_path / "index", manifest)
    again = read_manifest(tmp_path / "index")
    assert again.records == manifest.records
    assert again.labels == manifest.labels
    moved = read_manifest(tmp_path / "index", root=tmp_path / "elsewhere")
    assert moved.records[0].path.startswith(str(tmp_path / "elsewhere"))
    (tmp_path / "index/manifest.jsonl").write_text("{oops\n")
    with pytest.raises(DataError, match="the manifest is damaged"):
        read_manifest(tmp_path / "index")
    with pytest.raises(DataError, match="is not a manifest"):
        read_manifest(tmp_path)


def test_unchanged_files_are_not_inspected_again(
    manifest: Manifest, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest is reused: videos are split again, and only changed files are inspected."""
    write_manifest(tmp_path / "index", manifest)
    looked_at: list[str] = []

    def note(records: list[VideoRecord], **options: object) -> list[VideoRecord]:
        looked_at.extend(Path(record.path).name for record in records)
        return [VideoRecord(path=record.path, status="ok") for record in records]

    monkeypatch.setattr(indexing, "inspect_records", note)
    again = index_dataset(tmp_path / "index", division=Division(), inspection=quick)
    assert looked_at == []
    assert {r.path: r.status for r in again.records} == {r.path: r.status for r in manifest.records}
    os.utime(data / "train/run/a.mp4")
    index_dataset(tmp_path / "index", inspection=quick)
    assert looked_at == ["a.mp4"]


def test_an_interrupted_check_resumes(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = indexing.inspect_records
    looked_at: list[str] = []

    def stop_after_three(records: list[VideoRecord], **options: object):
        for number, record in enumerate(real(records, **options)):
            if number == 3:
                raise KeyboardInterrupt
            looked_at.append(record.path)
            yield record

    monkeypatch.setattr(indexing, "inspect_records", stop_after_three)
    with pytest.raises(KeyboardInterrupt):
        index_dataset(data, inspection=quick, folder=tmp_path)

    def note(records: list[VideoRecord], **options: object):
        looked_at.extend(record.path for record in records)
        return real(records, **options)

    monkeypatch.setattr(indexing, "inspect_records", note)
    manifest = index_dataset(data, inspection=quick, folder=tmp_path)
    assert sorted(looked_at) == sorted({record.path for record in manifest.records})
    assert all(record.status != "unknown" for record in manifest.records)


def test_statuses_are_those_of_scores_and_old_manifests_are_read(
    manifest: Manifest, tmp_path: Path
) -> None:
    broken = next(record for record in manifest.records if record.path.endswith("text.mp4"))
    assert broken.status == "error"
    write_manifest(tmp_path, manifest)
    file = tmp_path / "manifest.jsonl"
    file.write_text(file.read_text().replace('"status": "error"', '"status": "failed"'))
    assert '"failed"' in file.read_text()
    assert read_manifest(tmp_path).records == manifest.records
