"""A file that names other files is refused under any name; no other file is read."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.videopipe.video.installed_backends import INSTALLED, auto_and_backends
from videopipe.errors import DecodeError
from videopipe.video.backends.pyav_stream import PyavStream
from videopipe.video.containers import playlist_kind
from videopipe.video.decoder import BackendUnavailableError, NoVideoError
from videopipe.video.video import open_video
from videopipe.video.writing import write_video

HLS = """#EXTM3U
#EXT-X-VERSION:3
#EXT-X-TARGETDURATION:10
#EXTINF:2.0,
other/film.ts
#EXT-X-ENDLIST
"""
CONCAT = "ffconcat version 1.0\nfile other/film.mp4\n"
DASH = """<?xml version="1.0"?>
<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT2S"
 profiles="urn:mpeg:dash:profile:isoff-on-demand:2011"><Period><AdaptationSet mimeType="video/mp4">
<Representation id="1" bandwidth="1000"><BaseURL>other/film.mp4</BaseURL></Representation>
</AdaptationSet></Period></MPD>
"""
SDP = "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n"
ID3_TAG = b"ID3\x04\x00\x00" + bytes([0, 0, 0, 20]) + bytes(20)
PLAYLISTS = {
    "list.m3u8": HLS.encode(),
    "hls.mp4": HLS.encode(),
    "concat.mp4": CONCAT.encode(),
    "concat.ffconcat": CONCAT.encode(),
    "dash.mpd": DASH.encode(),
    "late_dash.avi": b"\n" * 100_000 + DASH.encode(),
    "stream.sdp": SDP.encode(),
    "late_sdp.mp4": b"s=x\n" + SDP.encode()[4:],
    "tagged.m3u8": ID3_TAG + HLS.encode(),
    "tagged_twice.mp4": ID3_TAG * 2 + CONCAT.encode(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_video: Callable) -> Path:
    """Real films in other/, and files beside it that point to them."""
    folder = tmp_path_factory.mktemp("playlists")
    tiny_video(folder / "other/film.mp4", height=64, width=64)
    tiny_video(folder / "other/film.ts", height=64, width=64, codec="mpeg2video")
    for name, content in PLAYLISTS.items():
        (folder / name).write_bytes(content)
    for number in (1, 2, 3):
        Image.new("RGB", (64, 64), (50 * number,) * 3).save(folder / f"s{number:03}.jpg")
    (folder / "s%03d.jpg").write_bytes(b"a pattern, and no picture")
    (folder / "notes.txt").write_text("some text\n" * 50)
    return folder


@auto_and_backends
@pytest.mark.parametrize("name", PLAYLISTS)
def test_playlists_are_refused_by_their_content(backend: str, name: str, folder: Path) -> None:
    with pytest.raises(NoVideoError, match="not a video; give the video files themselves"):
        open_video(folder / name, backend)


@auto_and_backends
@pytest.mark.parametrize("name", ["s%03d.jpg", "notes.txt"])
def test_patterns_and_texts_are_refused(backend: str, name: str, folder: Path) -> None:
    with pytest.raises(DecodeError):
        open_video(folder / name, backend)


@pytest.mark.parametrize("name", [*PLAYLISTS, "s%03d.jpg", "notes.txt"])
def test_pyav_gets_an_allow_list(name: str, folder: Path) -> None:
    """Also without the check of the content, which only `open_video` does."""
    with pytest.raises(DecodeError, match="cannot be opened as a video"):
        PyavStream(folder / name)


def test_a_video_may_have_the_name_of_a_pattern(tmp_path: Path, tiny_video: Callable) -> None:
    frames = [np.full((64, 64, 3), 100, np.uint8)] * 10
    write_video(tmp_path / "film.gif", frames, frame_rate=10.0, codec="gif", pixel_format="rgb8")
    for number in (1, 2):
        Image.new("L", (64, 64), 250).save(tmp_path / f"s{number:03}.gif")
    for name in ("s%03d.gif", "s*.gif", "s?.gif", "{s}.gif", "s%d%%.gif"):
        path = Path(shutil.copy(tmp_path / "film.gif", tmp_path / name))
        with open_video(path) as video:
            assert abs(float(video.frames_at([0.5, 0.0]).float().mean()) - 100) < 10
            assert video.info.num_frames == 10
        for backend in [name for name in INSTALLED if name != "av"]:
            with pytest.raises(BackendUnavailableError, match="use the backend av"):
                open_video(path, backend)
    odd = tiny_video(tmp_path / "100%d pure*.mp4", height=64, width=64)
    for backend in INSTALLED:
        with open_video(odd, backend) as video:
            assert len(video.frames_at([0.0, 1.0])) == 2


def test_real_videos_are_no_playlists(shared: Path) -> None:
    for path in (shared / "data/odd_videos").iterdir():
        assert playlist_kind(path) is None, path.name
