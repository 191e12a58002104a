"""Errors for videos that cannot be decoded: cut, missing and misnamed files, wrong requests."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import av
import pytest
from torch import Tensor

from tests.videopipe.video.installed_backends import INSTALLED
from videopipe.errors import DecodeError
from videopipe.video.video import BACKENDS, EndOfVideoError, open_video


def greys_of(frames: Tensor) -> list[float]:
    return frames.float().mean(dim=(1, 2, 3)).tolist()


def test_a_truncated_video_ends_at_its_last_frame(
    tmp_path: Path, tiny_video: Callable, grey_of: Callable
) -> None:
    """The header has the full duration; the reported one is what can be decoded."""
    size = {"height": 128, "width": 128}
    whole = tiny_video(tmp_path / "whole.mkv", num_frames=60, frame_rate=10.0, **size)
    cut = tmp_path / "cut.mkv"
    cut.write_bytes(whole.read_bytes()[: int(whole.stat().st_size * 0.5)])
    with open_video(cut) as video:
        frames = video.frames_at([0.05, 0.55])
        assert greys_of(frames) == pytest.approx([grey_of(0, 60), grey_of(5, 60)], abs=2)
        video.frames_at([0.0, 5.9])  # begins before the end: the last frame stays
        assert video.duration_seconds < 5.0
        with pytest.raises(EndOfVideoError, match="it ends at"):
            video.frames_at([5.9])


def test_a_cut_mp4_is_known_from_its_index(shared: Path, tmp_path: Path) -> None:
    whole = shared / "data/odd_videos/vision__test_segfault2.mp4"
    with av.open(str(whole)) as container:
        faststart = tmp_path / "fast.mp4"
        with av.open(str(faststart), "w", options={"movflags": "faststart"}) as out:
            source = container.streams.video[0]
            target = out.add_stream_from_template(source)
            for packet in container.demux(source):
                if packet.dts is not None:
                    packet.stream = target
                    out.mux(packet)
    cut = tmp_path / "cut.mp4"
    cut.write_bytes(faststart.read_bytes()[: int(faststart.stat().st_size * 0.6)])
    with open_video(cut) as video:
        assert 3.0 < video.duration_seconds < 7.0
        assert "cut off: the last" in video.problems[0]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: None, "no such file"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(b"not a video" * 99), "cannot be opened as a video"),
        (lambda path: path.mkdir(), "is a folder; expected a video file"),
        (lambda path: os.mkfifo(path), "is not a file"),
    ],
)
def test_files_that_are_not_videos_are_errors(make: Callable, reason: str, tmp_path: Path) -> None:
    make(tmp_path / "x.mp4")
    with pytest.raises(DecodeError, match=reason):
        open_video(tmp_path / "x.mp4")


def test_auto_falls_back_with_a_warning(
    tmp_path: Path,
    tiny_video: Callable,
    grey_of: Callable,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = next(name for name in INSTALLED if name != "av")
    monkeypatch.setattr("videopipe.video.video.AUTO_ORDER", ("av", other))
    path = tiny_video(tmp_path / "a.mp4", height=64, width=64)
    monkeypatch.setitem(BACKENDS, "av", ("videopipe.video.backends.no_such_module", "X"))
    monkeypatch.setattr("videopipe.video.video._unavailable", {})
    with open_video(path) as video:
        assert video.backend == other
        assert greys_of(video.frames_at([0.5])) == pytest.approx([grey_of(7, 30)], abs=2)
    assert "backend 'av' does not work on this machine" in caplog.text
    assert f"decoding it with {other} instead" in caplog.text


def test_wrong_requests_are_named(tmp_path: Path, tiny_video: Callable) -> None:
    path = tiny_video(tmp_path / "a.mp4")
    with pytest.raises(ValueError, match=r"unknown backend 'ffms2'; known: auto, av, "):
        open_video(path, "ffms2")
    with open_video(path) as video:
        assert video.frames_at([]).shape == (0, 3, 32, 48)
        with pytest.raises(ValueError, match="finite"):
            video.frames_at([float("nan")])


def test_unusual_file_names(
    tmp_path: Path, tiny_video: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tiny_video(tmp_path / "plain.mp4")
    for name in ("a b.mp4", "(x) [y] #1 & ;!.mp4", "-dash.mp4", "ünï.mp4", "100%.mp4", "a:b.mp4"):
        path = tmp_path / name
        shutil.copy(plain, path)
        with open_video(path) as video:
            assert video.frames_at([0.5]).shape == (1, 3, 32, 48)
    monkeypatch.chdir(tmp_path)
    with open_video("a:b.mp4") as video:
        assert video.backend == "av"
