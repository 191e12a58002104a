"""`videopipe doctor` reports every problem with its remedy."""

from pathlib import Path

import pytest

from videopipe.commands import doctor
from videopipe.commands.doctor import DoctorFinding


def test_this_machine_is_examined_in_full(tmp_path: Path) -> None:
    findings = list(doctor.examine(tmp_path / "runs"))
    said = "\n".join(finding.what for finding in findings)
    for words in ("Python 3.", "torch ", "torchvision ", "decoder av reads video", "CPU cores"):
        assert words in said
    assert all(finding.remedy for finding in findings if finding.state == "note")
    assert not [finding for finding in findings if finding.state == "problem"]


def test_a_mismatched_pair_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"torch": "2.14.0", "torchvision": "0.30.0+cpu"}
    monkeypatch.setattr(doctor, "version", versions.__getitem__)
    monkeypatch.setattr(doctor, "requires", lambda _: ["numpy", "torch==2.15.0"])
    remedy = "pip install --upgrade torch torchvision (both from the same index)"
    assert list(doctor.check_pairing())[:2] == [
        DoctorFinding(
            "problem",
            "torchvision 0.30.0+cpu was built for torch 2.15.0, not for 2.14.0",
            remedy,
        ),
        DoctorFinding("problem", "torch 2.14.0 and torchvision 0.30.0+cpu differ in build", remedy),
    ]


def test_a_decoder_that_fails_is_a_note_and_none_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from videopipe.video import self_test

    monkeypatch.setattr(
        self_test, "check_backends", lambda: {"torchcodec": "no libavutil", "av": "gone"}
    )
    found = list(doctor.check_decoders())
    assert [finding.state for finding in found] == ["note", "note", "problem"]
    assert found[0].what == "decoder torchcodec does not work here: no libavutil"
    assert "apt install ffmpeg" in found[0].remedy


def test_little_memory_and_little_disk_are_noted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage(64_000_000, 0, 64_000_000))
    (disk,) = doctor.check_disk(tmp_path)
    assert disk.state == "note"
    assert "0.1 GB free" in disk.what
    for memory in doctor.check_shared_memory():
        assert memory.state == "note"
        assert "--shm-size" in memory.remedy


def test_a_check_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def explode() -> list[DoctorFinding]:
        raise RuntimeError("driver on fire")

    monkeypatch.setattr(doctor, "check_devices", explode)
    monkeypatch.setattr(doctor, "check_decoders", lambda: iter(()))
    found = list(doctor.examine(tmp_path))
    assert DoctorFinding("problem", "explode: RuntimeError: driver on fire") in found
    assert any(finding.what.startswith("disk of") for finding in found)
