"""Film strips are decoded where a file that hangs or crashes the decoder can be killed."""

import base64
import ctypes
import io
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from videopipe.report.page import Strip
from videopipe.report.pictures.filmstrip import StripRequest, draw_strip, film_strips
from videopipe.video.writing import write_video


def misbehave(request: StripRequest) -> Iterator[Strip | str]:
    if request.path.stem == "hangs":
        ctypes.PyDLL(None).sleep(1000)  # with the interpreter lock held
    if request.path.stem == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    yield from draw_strip(request)


@pytest.fixture
def video(tmp_path: Path) -> Path:
    frames = (np.full((24, 32, 3), 20 * level, dtype=np.uint8) for level in range(12))
    write_video(tmp_path / "good.mp4", frames, frame_rate=12.0)
    return tmp_path / "good.mp4"


def test_a_strip_says_what_it_shows(video: Path) -> None:
    (strip,) = film_strips([StripRequest(video, "Confident and wrong: bend", 2)])
    assert isinstance(strip, Strip)
    assert strip.image.startswith("data:image/jpeg;base64,")
    assert strip.caption == "Confident and wrong: bend (1.0 s, 2 clips scored)"
    assert "good.mp4" in strip.alt


def test_a_folder_of_frames_has_a_strip_without_its_rate(tmp_path: Path) -> None:
    (tmp_path / "frames").mkdir()
    for number in range(1, 17):
        picture = Image.new("RGB", (40, 30), (10 * number, 0, 0))
        picture.save(tmp_path / "frames" / f"{number:05}.png")
    (strip,) = film_strips([StripRequest(tmp_path / "frames", "Right: bend")])
    assert isinstance(strip, Strip)
    assert strip.caption == "Right: bend (16 frames, one clip scored)"
    image = Image.open(io.BytesIO(base64.b64decode(strip.image.partition(",")[2])))
    reds = [image.getpixel((image.width * (2 * n + 1) // 16, 15))[0] for n in range(8)]
    assert reds == pytest.approx([20 * n + 20 for n in range(8)], abs=4)  # every second picture


def test_files_that_hang_crash_or_are_no_videos_lose_only_their_strip(
    video: Path, tmp_path: Path
) -> None:
    requests = [StripRequest(tmp_path / f"{name}.mp4", name) for name in ("hangs", "crashes")]
    (tmp_path / "text.mp4").write_bytes(b"no video")
    requests += [StripRequest(tmp_path / "text.mp4", "text"), StripRequest(video, "good")]
    found = film_strips(requests, timeout_seconds=6.0, draw=misbehave)
    assert "6 s" in str(found[0])
    assert "SIGSEGV" in str(found[1])
    assert "cannot be opened as a video" in str(found[2])
    assert isinstance(found[3], Strip)
    assert film_strips([]) == []
