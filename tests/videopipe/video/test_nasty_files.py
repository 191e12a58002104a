"""Difficult files: each backend returns the right frames, or refuses them with a reason."""

import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from videopipe.cli import main
from videopipe.dataset.inspection import inspect_video
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DecodeError
from videopipe.video.video import BACKENDS, load_backend, open_video

FRAME_RATE = 20
NUM_FRAMES = 40
GREY_TOLERANCE = 4.0  # of lossy codecs with one colour sample per two pixels
ONE = 1 << 16  # in the fixed point of display matrices


def grey_at(number: int) -> int:
    return 30 + 4 * number


def write_nasty(
    path: Path,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    *,
    size: tuple[int, int] = (64, 96),
    format_name: str | None = None,
    muxing: dict[str, str] | None = None,
    first_stamp: int = 0,
    **options: str,
) -> Path:
    """40 frames at 20 per second; frame i is grey 30 + 4 i, with a white mark at the upper left."""
    height, width = size
    with av.open(str(path), "w", format=format_name, options=muxing or {}) as container:
        stream: Any = container.add_stream(codec, rate=FRAME_RATE, options=options)
        stream.pix_fmt, stream.height, stream.width = pixel_format, height, width
        stream.thread_count = 1
        for number in range(NUM_FRAMES):
            pixels = np.full((height, width, 3), grey_at(number), np.uint8)
            pixels[: height // 4, : width // 4] = 255
            if pixel_format == "pal8":
                greys = np.arange(256, dtype=np.uint8)[:, None].repeat(4, axis=1)
                frame = av.VideoFrame.from_ndarray((pixels[..., 0], greys), format="pal8")
            else:
                frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
                frame = frame.reformat(format=pixel_format)
            frame.pts, frame.time_base = first_stamp + number, Fraction(1, FRAME_RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def greys_of(path: Path, backend: str, times: list[float]) -> list[float]:
    """The grey level of the lower right quarter, where no mark is."""
    with open_video(path, backend) as video:
        frames = video.frames_at(times)
    height, width = frames.shape[-2:]
    return frames[..., height // 2 :, width // 2 :].float().mean(dim=(1, 2, 3)).tolist()


# name -> codec, pixel format, further arguments of `write_nasty`
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "ten_bit.mp4": ("libx265", "yuv420p10le", {"x265-params": "log-level=none"}),
    "grey.mkv": ("ffv1", "gray", {}),
    "alpha.webm": ("libvpx-vp9", "yuva420p", {"auto-alt-ref": "0", "crf": "10", "b": "0"}),
    "alpha.mov": ("qtrle", "argb", {}),
    "interlaced.ts": ("mpeg2video", "yuv420p", {"flags": "+ilme+ildct", "qscale": "2", "bf": "2"}),
    "program.mpg": ("mpeg2video", "yuv420p", {"qscale": "2"}),
    "b_frames.avi": ("mpeg4", "yuv420p", {"bf": "2", "qscale": "2"}),
    "b_frames.mp4": ("libx264", "yuv420p", {"bf": "3", "crf": "4"}),
    "open_groups.mp4": (
        "libx264",
        "yuv420p",
        {"bf": "3", "crf": "4", "x264-params": "open-gop=1:keyint=12"},
    ),
    "raw.h264": ("libx264", "yuv420p", {"format_name": "h264", "crf": "4"}),
    "film.flv": ("libx264", "yuv420p", {"crf": "4"}),
    "live.mkv": ("libx264", "yuv420p", {"muxing": {"live": "1"}, "crf": "4"}),
    "fragments.mp4": (
        "libx264",
        "yuv420p",
        {"muxing": {"movflags": "frag_keyframe+empty_moov"}, "crf": "4"},
    ),
    "late.mkv": ("libx264", "yuv420p", {"first_stamp": 2000, "crf": "4"}),
    "odd_size.mkv": ("ffv1", "yuv444p", {"size": (13, 17)}),
    "plain.avi": ("rawvideo", "bgr24", {}),
    "palette.avi": ("rawvideo", "pal8", {}),
    "animation.gif": ("gif", "rgb8", {}),
    "animation.apng": ("apng", "rgb24", {"format_name": "apng"}),
}


@pytest.mark.parametrize("name", FILES)
def test_every_backend_gives_the_right_frames_or_refuses(name: str, tmp_path: Path) -> None:
    codec, pixel_format, arguments = FILES[name]
    path = write_nasty(tmp_path / name, codec, pixel_format, **arguments)
    with open_video(path) as video:
        duration = video.duration_seconds
        period = duration / NUM_FRAMES  # FFmpeg assumes 25 frames per second for a raw stream
    assert duration == pytest.approx(NUM_FRAMES / (25 if name == "raw.h264" else 20), abs=0.06)
    numbers = [0, 7, 21, 38, 39, 12]
    expected = [grey_at(number) for number in numbers]
    tolerance = 12.0 if pixel_format == "rgb8" else GREY_TOLERANCE  # eight shades of red
    for backend in BACKENDS:
        try:
            load_backend(backend)
            found = greys_of(path, backend, [(number + 0.5) * period for number in numbers])
        except DecodeError:
            assert backend != "av"
            continue
        assert found == pytest.approx(expected, abs=tolerance), backend


def matrix(a: int, b: int, c: int, d: int) -> bytes:
    return struct.pack(">9i", a * ONE, b * ONE, 0, c * ONE, d * ONE, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize(
    ("numbers", "corner"),
    [
        ((0, 1, -1, 0), "upper right"),
        ((-1, 0, 0, -1), "lower right"),
        ((0, -1, 1, 0), "lower left"),
        ((-1, 0, 0, 1), "upper right"),
        ((1, 0, 0, -1), "lower left"),
        ((0, 1, 1, 0), "upper left"),
        ((0, -1, -1, 0), "lower right"),
    ],
)
def test_turned_and_mirrored_pictures_in_every_backend(
    numbers: tuple[int, int, int, int], corner: str, tmp_path: Path
) -> None:
    path = write_nasty(tmp_path / "a.mp4", crf="4")
    content = path.read_bytes()
    assert content.count(matrix(1, 0, 0, 1)) == 2  # of the film and of its track
    position = content.rindex(matrix(1, 0, 0, 1))
    path.write_bytes(content[:position] + matrix(*numbers) + content[position + 36 :])
    for backend in BACKENDS:
        try:
            load_backend(backend)
        except DecodeError:
            continue
        with open_video(path, backend) as video:
            frame = video.frames_at([0.0])[0, 0].float()
        assert frame.shape == ((96, 64) if numbers[0] == 0 else (64, 96)), backend
        marks = {
            "upper left": frame[:6, :6],
            "upper right": frame[:6, -6:],
            "lower left": frame[-6:, :6],
            "lower right": frame[-6:, -6:],
        }
        assert max(marks, key=lambda name: marks[name].mean().item()) == corner, backend


def overcount(path: Path) -> None:
    """An AVI header with a frame count of 100,000."""
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.index(b"avih") + 24, 100_000)
    struct.pack_into("<I", content, content.index(b"strh") + 40, 100_000)
    path.write_bytes(content)


def test_an_avi_with_too_many_frames_in_its_header(tmp_path: Path) -> None:
    path = write_nasty(tmp_path / "a.avi", "mpeg4", bf="2", qscale="2")
    overcount(path)
    without_index = tmp_path / "b.avi"
    without_index.write_bytes(path.read_bytes()[: path.read_bytes().index(b"idx1")])
    for file in (path, without_index):
        with open_video(file) as video:
            assert video.duration_seconds == pytest.approx(2.0, abs=0.01)
            assert video.info.num_frames == NUM_FRAMES
            assert "promises 100000 frames, the file holds 40" in video.problems[0]
            assert video.frames_at([1.975])[0].float().mean() > 170


@pytest.mark.parametrize("name", ["a.ts", "a.h264", "a.mkv"])
def test_concatenated_recordings_are_decoded_to_the_end(name: str, tmp_path: Path) -> None:
    muxing = {"live": "1"} if name == "a.mkv" else {}
    path = write_nasty(tmp_path / name, muxing=muxing, crf="4")
    path.write_bytes(2 * path.read_bytes())
    with open_video(path) as video:
        assert video.info.num_frames == 2 * NUM_FRAMES
        period = video.duration_seconds / (2 * NUM_FRAMES)
    numbers = [5, 39, 40, 45, 79]
    found = greys_of(path, "av", [(number + 0.5) * period for number in numbers])
    expected = [grey_at(number % NUM_FRAMES) for number in numbers]
    assert found == pytest.approx(expected, abs=GREY_TOLERANCE)


def test_backends_that_choose_another_stream_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.mkv"
    with av.open(str(path), "w") as container:
        sizes = [(32, 32), (64, 96)]
        streams: list[Any] = [container.add_stream("libx264", rate=FRAME_RATE) for _ in sizes]
        for stream, (height, width) in zip(streams, sizes, strict=True):
            stream.pix_fmt, stream.height, stream.width = "yuv420p", height, width
        for number in range(NUM_FRAMES):
            for stream, (height, width) in zip(streams, sizes, strict=True):
                pixels = np.full((height, width, 3), grey_at(number), np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        for stream in streams:
            container.mux(stream.encode(None))
    with open_video(path) as video:
        expected = video.frames_at([0.5]).shape
    for backend in BACKENDS:
        try:
            load_backend(backend)
            with open_video(path, backend) as video:
                assert video.frames_at([0.5]).shape == expected, backend
        except DecodeError:
            assert backend != "av"


def test_huge_pictures_in_a_header_cost_no_memory(tmp_path: Path) -> None:
    path = write_nasty(tmp_path / "a.avi", "rawvideo", "bgr24")
    content = bytearray(path.read_bytes())
    struct.pack_into("<ii", content, content.index(b"strf") + 12, 30_000, 30_000)
    path.write_bytes(content)
    with pytest.raises(DecodeError, match="no frame decodes"):
        inspect_video(VideoRecord(path=str(path)), "full")


@pytest.fixture
def odd(tmp_path: Path, tiny_video: Callable) -> Path:
    """A folder with odd names, and with pipes and links, which are not files."""
    import os

    folder = tmp_path / "odd"
    tiny_video(folder / "good.mp4", num_frames=8)
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_text("hello, I am text")
    (folder / "a folder.mp4").mkdir()
    os.mkfifo(folder / "pipe.mp4")
    (folder / "nowhere.mp4").symlink_to(folder / "gone.mp4")
    (folder / "round.mp4").symlink_to(folder / "round.mp4")
    (folder / "two\nlines.mp4").write_text("no")
    Path(os.fsdecode(os.fsencode(folder) + b"/latin\xe9.mp4")).write_text("no")
    return folder


def test_check_survives_names_and_things_that_are_no_files(
    odd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in ("csv", "jsonl"):
        table = tmp_path / f"health.{suffix}"
        assert main(["check", str(odd), "--table", str(table), "--timeout-seconds", "60"]) == 1
        text = table.read_text(encoding="utf-8", errors="surrogateescape")
        assert ("latin\\udce9.mp4" if suffix == "jsonl" else "latin\udce9.mp4") in text
    said = capsys.readouterr().out
    assert "8 listed" in said
    assert "7 of 8 videos cannot be used" in said
    assert "two\\nlines.mp4" in said
    assert "pipe.mp4: is not a file" in said
    assert "round.mp4: cannot be read" in said
