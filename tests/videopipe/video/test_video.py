"""The right frames, in the right order, the right way up."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from torch import Tensor

from tests.videopipe.video.installed_backends import backends, backends_slow_except
from videopipe.video.backends.pyav_stream import READING, PyavStream
from videopipe.video.video import open_video
from videopipe.video.writing import write_video

GREY_TOLERANCE = 3.0


# The slower ones are left to the slow tests.
quick_backends = backends_slow_except("av", "torchcodec")


def greys_of(frames: Tensor) -> list[float]:
    return frames.float().mean(dim=(1, 2, 3)).tolist()


def decoded_in_order(path: Path, limit: int = 400) -> list[Tensor]:
    """Every frame as the decoder gives them out, upright."""
    frames = []
    with av.open(str(path), **READING) as container:
        stream = container.streams.best("video")
        stream.thread_count = 1
        for frame in container.decode(stream):
            pixels = torch.from_numpy(frame.to_ndarray(format="rgb24"))
            frames.append(torch.rot90(pixels, round(frame.rotation / 90) % 4).permute(2, 0, 1))
            if len(frames) == limit:
                break
    return frames


@backends
@pytest.mark.parametrize("name", ["film.mp4", "film.avi", "film.mkv", "film.mov"])
def test_every_backend_finds_the_frame_that_is_written_in_the_picture(
    backend: str, name: str, tmp_path: Path, tiny_video: Callable, grey_of: Callable
) -> None:
    options = {"codec": "ffv1"} if name.endswith("avi") else {}
    options |= {"height": 64, "width": 128}
    path = tiny_video(tmp_path / name, num_frames=40, frame_rate=20.0, **options)
    order = np.random.default_rng(0).permutation(40)
    with open_video(path, backend) as video:
        assert abs(video.duration_seconds - 2.0) < 0.06
        frames = video.frames_at([(i + 0.5) / 20 for i in range(40)])
        exact = video.frames_at([i / 20 for i in range(40)])
        shuffled = torch.cat([video.frames_at([(i + 0.25) / 20]) for i in order[:10]])
    assert frames.dtype == torch.uint8
    assert frames.shape == (40, 3, 64, 128)
    expected = np.array([grey_of(i, 40) for i in range(40)])
    assert np.abs(np.array(greys_of(frames)) - expected).max() < 2.0
    assert torch.equal(frames, exact)
    assert torch.equal(shuffled, frames[order[:10]])


@quick_backends
def test_real_hmdb51_files_are_decoded_in_display_order(backend: str, shared: Path) -> None:
    """Timestamps of B-frames are swapped in these files; the decoder's order is correct."""
    videos = sorted((shared / "data/hmdb51/videos").rglob("*.avi"))
    assert len(videos) == 8
    for path in videos if backend == "av" else videos[:4]:
        truth = decoded_in_order(path, 64)
        times = [(index + 0.5) / 30 for index in range(len(truth) - 1)]
        with open_video(path, backend) as video:
            frames = video.frames_at(times)
        for index, frame in enumerate(frames):
            difference = (frame.float() - truth[index].float()).abs().mean()
            assert difference < GREY_TOLERANCE, f"{path.name}, frame {index}"


def test_seeking_gives_the_frames_of_a_full_decode(shared: Path) -> None:
    names = [
        "hmdb51/videos/climb_stairs/*.avi",  # twelve key frames
        "clips/R*.mp4",
        "clips/*.mkv",
        "odd_videos/torchcodec__nasa_13013_rotated.mp4",
        "odd_videos/torchcodec__var_fps_video.mp4",
        "odd_videos/torchcodec__test_non_zero_start.mp4",
        "odd_videos/torchcodec__testsrc2_odd_dims_10bit.mp4",
        "odd_videos/moviepy__no_duration.webm",
    ]
    for path in [path for name in names for path in sorted((shared / "data").glob(name))]:
        with open_video(path, "av") as video:
            times = video._decoder.cursor.decode_all()[:350]  # type: ignore[attr-defined]
            truth = decoded_in_order(path, 350)
            assert len(times) == len(truth)
            for index in np.random.default_rng(1).permutation(len(times))[:6]:
                frame = video.frames_at([times[index]])[0]
                assert torch.equal(frame, truth[index]), f"{path.name}, frame {index}"


@quick_backends
def check_backends_agree_on_real_clips(backend: str, shared: Path) -> None:
    for path in sorted((shared / "data/clips").iterdir())[:4]:
        with open_video(path, "av") as video:
            times = [(i + 0.5) * video.duration_seconds / 8 for i in range(8)]
            expected = video.frames_at(times).float().mean(dim=1)
        with open_video(path, backend) as video:
            greys = video.frames_at(times).float().mean(dim=1)
        assert (greys - expected).abs().mean(dim=(1, 2)).max() < 0.5, path.name


def test_pieces_of_a_clip_are_the_frames_of_the_whole(shared: Path) -> None:
    """B-frames that are not requested are not decoded; the next request may ask for them."""
    for name in ("hmdb51/videos/wave/RATRACE*.avi", "odd_videos/*odd_height_and_width_mpeg2.mp4"):
        path = next((shared / "data").glob(name))
        with open_video(path, "av") as video:
            last = video.duration_seconds - 0.05
            times = [index * last / 47 for index in range(48)]
            whole = video.frames_at(times)
        with open_video(path, "av") as video:
            pieces = [video.frames_at(times[first : first + 5]) for first in range(0, 48, 5)]
            single = torch.cat([video.frames_at([time]) for time in times[::-1]])
        assert torch.equal(torch.cat(pieces), whole)
        assert torch.equal(single.flip(0), whole)


def test_rotated_and_mirrored_files_are_set_upright(shared: Path) -> None:
    folder = shared / "data/odd_videos"
    with (
        open_video(folder / "torchcodec__nasa_13013.mp4") as straight,
        open_video(folder / "torchcodec__nasa_13013_rotated.mp4") as turned,
    ):
        expected = torch.rot90(straight.frames_at([3.0]), 1, (-2, -1))
        assert torch.equal(turned.frames_at([3.0]), expected)
        assert (turned.height, turned.width) == (480, 270)
        assert turned.info.rotation_degrees == 270


def test_display_matrices() -> None:
    from videopipe.video.picture import turns_and_mirror

    def matrix(a: int, b: int, c: int, d: int) -> bytes:
        one = 1 << 16
        return np.array([a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30], "<i4").tobytes()

    assert turns_and_mirror(matrix(1, 0, 0, 1)) == (0, False)
    assert turns_and_mirror(matrix(0, 1, -1, 0)) == (3, False)
    assert turns_and_mirror(matrix(-1, 0, 0, -1)) == (2, False)
    assert turns_and_mirror(matrix(0, -1, 1, 0)) == (1, False)
    assert turns_and_mirror(matrix(-1, 0, 0, 1)) == (0, True)


def test_variable_rate_is_read_by_time(shared: Path) -> None:
    path = shared / "data/odd_videos/torchcodec__var_fps_video.mp4"
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stamps = [(f.time, f.to_ndarray(format="rgb24")) for f in container.decode(stream)]
    middles = [(a[0] + b[0]) / 2 for a, b in pairwise(stamps)][::17]
    with open_video(path) as video:
        frames = video.frames_at(middles)
    for time, frame in zip(middles, frames, strict=True):
        shown = [picture for start, picture in stamps if start <= time][-1]
        assert np.array_equal(frame.permute(1, 2, 0).numpy(), shown)


def test_sparse_access_decodes_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.mp4"
    frames = (np.full((32, 32, 3), 20 + i % 200, np.uint8) for i in range(1000))
    write_video(path, frames, frame_rate=25.0)  # x264 sets a key frame every 250
    fed = []
    decode = PyavStream._decode
    monkeypatch.setattr(PyavStream, "_decode", lambda s, p: fed.append(p) or decode(s, p))
    with open_video(path, "av") as video:
        greys = greys_of(video.frames_at([30.02, 0.02, 20.02]))
    assert [round(grey) for grey in greys] == pytest.approx([20 + 150, 20, 20 + 100], abs=2)
    assert len(fed) < 60


def test_decoding_and_scaling_start_no_threads(tmp_path: Path, tiny_video: Callable) -> None:
    """Each worker has one core, and waiting for a thread after a fork would never end."""
    path = tiny_video(tmp_path / "a.mp4", height=128, width=128)
    before = len(list(Path("/proc/self/task").iterdir()))
    for short_side in (None, 64):
        with open_video(path, "av", short_side) as video:
            video.frames_at([0.0, 1.0])
            assert len(list(Path("/proc/self/task").iterdir())) == before


def test_frames_are_scaled_down_while_decoding(shared: Path) -> None:
    from torchvision.transforms.v2 import functional as transforms

    path = shared / "data/clips/mmaction2_demo.mp4"  # 256 × 340
    with open_video(path) as full, open_video(path, short_side=128) as small:
        assert (small.height, small.width) == (128, 170)
        expected = transforms.resize(full.frames_at([1.0, 2.0]), [128], antialias=True)
        frames = small.frames_at([1.0, 2.0])
    assert frames.shape == expected.shape == (2, 3, 128, 170)
    assert (frames.float() - expected.float()).abs().mean() < 2.0
    with open_video(path, short_side=512) as video:
        assert (video.height, video.width) == (256, 340)
