"""A tiny real model and tiny real videos."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from videopipe.video.writing import write_video

LABELS = ("left", "right", "up", "down")


def save_tiny_model(folder: Path, *, ndim: int = 3, seed: int = 0) -> Path:
    """A ConvNeXt of a few thousand weights, with a random head instead of zeros."""
    torch.manual_seed(seed)
    options = {
        "num_classes": len(LABELS),
        "depths": (1, 1, 1, 1),
        "widths": (8, 8, 16, 16),
        "image_size": 32,
        "layer_scale": 1.0,
    }
    if ndim == 3:
        options["num_frames"] = 4
    network = build("convnext_tiny", ndim=ndim, **options)
    with torch.no_grad():
        network.head.weight.normal_()
    card = ModelCard(
        architecture="convnext_tiny",
        options=options,
        ndim=ndim,
        labels=LABELS,
        preprocessing=Preprocessing(image_size=32, resize=36),
        num_frames=4 if ndim == 3 else None,
        clip_seconds=0.5 if ndim == 3 else None,
    )
    save_checkpoint(folder, network, card)
    return folder


def save_image_network(
    folder: Path, num_classes: int, labels: tuple[str, ...] | None = None
) -> Path:
    """A small network of timm for images, with random weights."""
    torch.manual_seed(0)
    card = ModelCard(
        architecture="timm/test_resnet",
        options={"num_classes": num_classes},
        labels=labels,
        preprocessing=Preprocessing(image_size=32, resize=32),
    )
    save_checkpoint(folder, build(card.architecture, **card.options), card)
    return folder


@pytest.fixture
def isotropic_backbone(tmp_path: Path) -> Path:
    """The checkpoint folder of a small 2D S4ND network with three classes."""
    options = {"depth": 1, "width": 8, "image_size": 16, "num_classes": 3}
    card = ModelCard(
        architecture="isotropic",
        options=options,
        labels=("x", "y", "z"),
        preprocessing=Preprocessing(image_size=16, resize=16),
    )
    save_checkpoint(tmp_path / "2d", build(card.architecture, **options), card)
    return tmp_path / "2d"


@pytest.fixture(scope="session")
def make_tiny_model() -> Callable[..., Path]:
    """`make_tiny_model(folder, ndim=3, seed=0)` -> folder"""
    return save_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def noisy_video() -> Callable[..., Path]:
    """Writes a video of drifting coarse noise that is unique to its seed."""

    def write(
        path: Path, seed: int, num_frames: int = 15, size: tuple[int, int] = (40, 56)
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(seed)
        coarse = random.integers(0, 256, (5, 7, 3), dtype=np.uint8)
        picture = coarse.repeat(8, 0).repeat(8, 1)
        frames = (np.roll(picture, frame, axis=seed % 2) for frame in range(num_frames))
        write_video(path, frames, frame_rate=15.0)
        return path

    return write


@pytest.fixture(scope="session")
def video_folder(
    tmp_path_factory: pytest.TempPathFactory, noisy_video: Callable[..., Path]
) -> Path:
    """Twelve short videos, one of them longer, and three files that are not videos."""
    folder = tmp_path_factory.mktemp("videos")
    for number in range(12):
        length = 90 if number == 4 else 10 + number
        noisy_video(folder / f"part{number % 3}" / f"video{number:02}.mp4", number, length)
    (folder / "part0" / "empty.mp4").touch()
    (folder / "part1" / "text.avi").write_text("not a film " * 200)
    whole = (folder / "part1" / "video04.mp4").read_bytes()
    (folder / "part2" / "truncated.mp4").write_bytes(whole[: len(whole) // 2])
    return folder
