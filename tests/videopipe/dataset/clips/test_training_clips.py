"""The same seed, epoch and item give the same clip in any process."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from pretrained_2d.checkpoints.card import Preprocessing
from pretrained_2d.randomness import Sample
from videopipe.dataset.clips.clip_transform import ClipTransform
from videopipe.dataset.clips.training_clips import ClipDataset
from videopipe.dataset.manifest import VideoRecord
from videopipe.errors import DataError


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory, tiny_video: Callable) -> list[VideoRecord]:
    folder = tmp_path_factory.mktemp("videos")
    return [
        VideoRecord(
            path=str(tiny_video(folder / f"{n}.mp4", num_frames=40)), label=n % 2, status="ok"
        )
        for n in range(6)
    ]


def dataset(records: list[VideoRecord], **options: object) -> ClipDataset:
    transform = ClipTransform(image_size=24, short_side=(26, 32))
    settings = {"num_frames": 8, "clip_seconds": 1.0, "transform": transform, "seed": 3} | options
    return ClipDataset(records, **settings)


def test_shapes_and_repeatability(records: list[VideoRecord]) -> None:
    data = dataset(records)
    assert len(data) == 6
    clip, label = data[Sample(1, epoch=2)]
    assert clip.dtype == torch.uint8
    assert clip.shape == (3, 8, 24, 24)
    assert label == 1
    assert torch.equal(clip, data[Sample(1, epoch=2)][0])
    assert not torch.equal(clip, data[Sample(1, epoch=3)][0])
    assert not torch.equal(clip, data[Sample(1, epoch=2, repeat=1)][0])
    assert not torch.equal(clip, dataset(records, seed=4)[Sample(1, epoch=2)][0])
    assert torch.equal(data[2][0], data[Sample(2)][0])


def test_workers_change_nothing(records: list[VideoRecord]) -> None:
    data = dataset(records)
    order = [Sample(item, epoch=1) for item in (3, 0, 5, 1, 4, 2)]
    alone = [data[sample][0] for sample in order]
    for workers in (1, 2):
        loader = DataLoader(data, batch_size=None, sampler=order, num_workers=workers)
        together = [clip for clip, _ in loader]
        assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_broken_videos_are_left_out_and_counted(records: list[VideoRecord]) -> None:
    broken = VideoRecord(path="gone.mp4", label=0, status="missing", reason="no such file")
    data = dataset([records[0], broken, records[1]])
    assert len(data) == 2
    assert data.left_out == (broken,)
    with pytest.raises(DataError, match="have no label"):
        dataset([VideoRecord(path="a.mp4", status="ok")])


def test_frames_come_from_the_stretch(
    tmp_path: Path, tiny_video: Callable, grey_of: Callable
) -> None:
    path = tiny_video(tmp_path / "a.mp4", num_frames=40, frame_rate=10.0)
    record = VideoRecord(
        path=str(path), label=0, start_seconds=2.0, end_seconds=3.0, duration_seconds=4.0
    )
    data = ClipDataset([record], num_frames=10, clip_seconds=1.0, seed=0)
    greys = data[0][0].float().mean(dim=(0, 2, 3)).tolist()
    assert greys == pytest.approx([grey_of(20 + i, 40) for i in range(10)], abs=2)
    long = ClipDataset([record], num_frames=4, clip_seconds=2.0, seed=0)
    greys = long[0][0].float().mean(dim=(0, 2, 3)).tolist()
    assert greys == pytest.approx([grey_of(i, 40) for i in (22, 27, 29, 29)], abs=2)


def test_the_same_geometry_for_all_frames() -> None:
    still = torch.randint(0, 256, (1, 3, 60, 80), dtype=torch.uint8).expand(5, 3, 60, 80)
    transform = ClipTransform(image_size=32, short_side=(40, 50), rand_augment_layers=3)
    for _ in range(20):
        frames = transform(still)
        assert frames.dtype == torch.uint8
        assert frames.shape == (5, 3, 32, 32)
        assert all(torch.equal(frames[0], frame) for frame in frames)


def test_augmentation_keeps_the_picture() -> None:
    """pytorchvideo's RandAugment turns a third of all clips black; ours must not."""
    frames = torch.randint(60, 200, (2, 3, 64, 64), dtype=torch.uint8)
    transform = ClipTransform(
        image_size=64, short_side=(64, 64), rand_augment_probability=1.0, rand_augment_magnitude=7
    )
    means = [transform(frames).float().mean().item() for _ in range(60)]
    assert min(means) > 30
    assert len({round(mean, 3) for mean in means}) > 10


def test_squashing_keeps_the_whole_width() -> None:
    frames = torch.zeros(1, 3, 40, 80, dtype=torch.uint8)
    frames[..., :8] = frames[..., -8:] = 255
    settings = {"image_size": 40, "short_side": (40, 40), "flip_probability": 0.0}
    squashed = ClipTransform(**settings, rand_augment_layers=0, squash=True)(frames)
    assert squashed.shape == (1, 3, 40, 40)
    assert squashed[..., 0].min() == squashed[..., -1].min() == 255
    tested = Preprocessing(image_size=40, resize=40, squash=True).resize_and_crop(frames)
    assert torch.equal(tested, squashed)


def test_shuffled_frames_are_the_same_frames() -> None:
    frames = torch.arange(9, dtype=torch.uint8).view(9, 1, 1, 1).expand(9, 3, 8, 8)
    settings = {"image_size": 8, "short_side": (8, 8), "rand_augment_layers": 0}
    orders = {
        tuple(ClipTransform(**settings, shuffle_frames=True)(frames)[:, 0, 0, 0].tolist())
        for _ in range(5)
    }
    assert len(orders) > 1
    assert all(sorted(order) == list(range(9)) for order in orders)


def test_impossible_settings_are_named() -> None:
    with pytest.raises(ValueError, match="short_side must be two sizes"):
        ClipTransform(image_size=224, short_side=(200, 320))
    with pytest.raises(ValueError, match="between 0 and 10"):
        ClipTransform(rand_augment_magnitude=11)
