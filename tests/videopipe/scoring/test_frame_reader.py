from collections.abc import Sequence

import pytest
import torch

from pretrained_2d.checkpoints.card import Preprocessing
from videopipe.dataset.clips.sampling import Clip, frame_times, sliding_windows
from videopipe.scoring import frame_reader as frames_module
from videopipe.scoring.frame_reader import FrameReader, three_crops
from videopipe.video.video import EndOfVideoError, Video, open_video

PREPROCESSING = Preprocessing(image_size=24, resize=28)


class WatchedVideo:
    """A real video that records the requested times."""

    def __init__(self, video: Video) -> None:
        self.video, self.asked = video, list[float]()

    def __getattr__(self, name: str) -> object:
        return getattr(self.video, name)

    def frames_at(self, times: Sequence[float]) -> torch.Tensor:
        self.asked += times
        return self.video.frames_at(times)


def expected(video: Video, clip: Clip, num_frames: int) -> torch.Tensor:
    """The same clip decoded alone: (channels, time, size, size)."""
    frames = video.frames_at(frame_times(clip, num_frames))
    return PREPROCESSING.resize_and_crop(frames).transpose(0, 1)


@pytest.mark.parametrize("stride_seconds", [0.25, 0.37, 1.0, 1.7])
@pytest.mark.parametrize("raw_bytes", [1, 10_000, 2**26])
def test_overlapping_windows_read_each_moment_once_and_in_order(
    tmp_path, noisy_video, monkeypatch, stride_seconds, raw_bytes
):
    monkeypatch.setattr(frames_module, "RAW_BYTES_AT_A_TIME", raw_bytes)
    path = noisy_video(tmp_path / "video.mp4", 3, num_frames=60)
    windows = sliding_windows(4.0, 1.0, stride_seconds)
    with open_video(path) as video, open_video(path) as fresh:
        watched = WatchedVideo(video)
        reader = FrameReader(watched, PREPROCESSING, crops=1)  # type: ignore[arg-type]
        most_kept = 0
        for number, (clip, crops) in enumerate(reader.read(windows, num_frames=8)):
            assert clip == windows[number]
            assert torch.equal(crops[0], expected(fresh, clip, 8))
            most_kept = max(most_kept, len(reader._kept))
        assert number == len(windows) - 1
    assert watched.asked == sorted(set(watched.asked))
    # Memory: the moments of one window, and of those that begin before it ends.
    assert most_kept <= 8 * (1 + -(-1.0 // stride_seconds))


def test_three_crops_show_both_ends_and_the_middle():
    ramp = torch.arange(120, dtype=torch.uint8).expand(1, 3, 28, 120)
    left, middle, right = three_crops(ramp, PREPROCESSING)
    assert torch.equal(left, ramp[..., 2:26, :24])
    assert torch.equal(right, ramp[..., 2:26, 96:])
    assert torch.equal(middle, PREPROCESSING.resize_and_crop(ramp))
    upright = [
        crop.transpose(-1, -2) for crop in three_crops(ramp.transpose(-1, -2), PREPROCESSING)
    ]
    assert torch.equal(upright[0], left)
    assert torch.equal(upright[2], right)


def test_every_crop_of_a_window_is_a_clip_of_its_part(tmp_path, noisy_video):
    path, clip = noisy_video(tmp_path / "video.mp4", 5, num_frames=20), Clip(0.25, 1.0)
    with open_video(path) as video, open_video(path) as fresh:
        ((_, crops),) = FrameReader(video, PREPROCESSING, crops=3).read([clip], num_frames=5)
        frames = fresh.frames_at(frame_times(clip, 5))  # (time, channels, height, width)
    assert crops.shape == (3, 3, 5, 24, 24)
    for found, part in zip(crops, three_crops(frames, PREPROCESSING), strict=True):
        assert torch.equal(found, part.transpose(0, 1))
    assert not torch.equal(crops[0], crops[2])


def test_preparing_a_frame_does_not_depend_on_its_neighbours():
    frames = torch.randint(0, 256, (9, 3, 47, 61), dtype=torch.uint8)
    together = PREPROCESSING.resize_and_crop(frames)
    alone = torch.cat([PREPROCESSING.resize_and_crop(frame[None]) for frame in frames])
    assert torch.equal(together, alone)


def test_a_range_shorter_than_a_clip_repeats_its_own_last_frame(tmp_path, tiny_video, grey_of):
    """Frames after the range are not used: they may show something else."""
    path = tiny_video(tmp_path / "video.mp4", num_frames=30, frame_rate=10.0)
    with open_video(path) as video:
        reader = FrameReader(video, PREPROCESSING, crops=1, ends_seconds=[1.5])
        ((_, crops),) = reader.read([Clip(0.5, 2.5)], num_frames=10)
    greys = crops[0].float().mean(dim=(0, 2, 3)).tolist()
    numbers = [6, 8, 10, 12, 14, 14, 14, 14, 14, 14]
    assert greys == pytest.approx([grey_of(number, 30) for number in numbers], abs=3)


class ShortVideo(WatchedVideo):
    """A video that turns out shorter than its header when a time after the end is requested."""

    duration_seconds = 9.0

    def frames_at(self, times: Sequence[float]) -> torch.Tensor:
        if max(times) > self.video.duration_seconds:
            self.duration_seconds = self.video.duration_seconds
            raise EndOfVideoError(self.video.path, "ends early")
        return super().frames_at(times)


def test_only_the_frames_after_an_unexpected_end_repeat_the_last(tmp_path, tiny_video, grey_of):
    path = tiny_video(tmp_path / "video.mp4", num_frames=30, frame_rate=10.0)
    with open_video(path) as video:
        reader = FrameReader(ShortVideo(video), PREPROCESSING, crops=1)  # type: ignore[arg-type]
        clips = reader.read([Clip(2.0, 4.0), Clip(4.0, 6.0)], num_frames=10)
        _, crops = next(clips)
        with pytest.raises(EndOfVideoError):
            next(clips)
    greys = crops[0].float().mean(dim=(0, 2, 3)).tolist()
    numbers = [21, 23, 25, 27, 29, 29, 29, 29, 29, 29]
    assert greys == pytest.approx([grey_of(number, 30) for number in numbers], abs=3)
