"""Small data sets and untrained networks for the environment variables of the pipelines."""

import itertools

import numpy as np
import pytest
import torch
from PIL import Image

from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
from pretrained_2d.checkpoints.folder import save_checkpoint
from pretrained_2d.networks.backbones import build
from videopipe.video.writing import write_video

CLASSES = ("brush_hair", "cartwheel")
SMALL_CONVNEXT = {"depths": (1, 1, 1, 1), "widths": (8, 8, 8, 8)}


@pytest.fixture(scope="session")
def variables(
    imagenet, cifar10, celeba, hmdb51, weizmann, split_folders, backbones
) -> dict[str, str]:
    """The environment variables that the pipelines name."""
    data = {"IMAGENET": imagenet, "CIFAR10": cifar10, "CELEBA": celeba}
    data |= {"HMDB51": hmdb51, "WEIZMANN": weizmann, **backbones}
    data |= dict.fromkeys(("DIGITS10", "GESTURE5", "JHMDB21"), split_folders)
    return {name: str(path) for name, path in data.items()}


def paint(path, colour, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imagenet")
    for split, label, number in itertools.product(
        ("train", "val"), ("n01440764", "n02102040"), range(4)
    ):
        paint(folder / split / label / f"{number}.JPEG", (number * 50, 90, 60), (40, 36))
    return folder


@pytest.fixture(scope="session")
def cifar10(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifar10")
    for split, label, number in itertools.product(("train", "test"), ("cat", "dog"), range(6)):
        paint(folder / split / label / f"{number}.png", (number * 40, 90, 60), (32, 32))
    return folder


@pytest.fixture(scope="session")
def celeba(tmp_path_factory):
    folder = tmp_path_factory.mktemp("celeba")
    names = [f"{number:06d}.jpg" for number in range(12)]
    for number, name in enumerate(names):
        paint(folder / "img_align_celeba" / name, (number * 20, 90, 60), (178, 218))
    rows = [f"{name} {1 if number % 2 else -1} 1" for number, name in enumerate(names)]
    (folder / "list_attr_celeba.txt").write_text("\n".join(["12", "Bald Young", *rows]))
    partition = [f"{name} {number // 4}" for number, name in enumerate(names)]
    (folder / "list_eval_partition.txt").write_text("\n".join(partition))
    return folder


def write_clip(path, number):
    """A second of a grey level that rises or falls."""
    path.parent.mkdir(parents=True, exist_ok=True)
    levels = (20 + 10 * number + 5 * index for index in range(12))
    frames = (np.full((36, 48, 3), level, dtype=np.uint8) for level in levels)
    write_video(path, frames, frame_rate=12.0)


@pytest.fixture(scope="session")
def hmdb51(tmp_path_factory):
    """HMDB-51 in its layout on disk, with two classes of eight short videos."""
    root = tmp_path_factory.mktemp("hmdb51")
    splits = root / "testTrainMulti_7030_splits"
    splits.mkdir()
    for label in CLASSES:
        names = [f"film{i}_{label}_u_cm_np1_fr_goo_{i}.avi" for i in range(8)]
        for number, name in enumerate(names):
            write_clip(root / "videos" / label / name, number)
        for split in (1, 2, 3):
            marks = [2 if number % 3 == split - 1 else 1 for number in range(8)]
            lines = [f"{name} {mark} " for name, mark in zip(names, marks, strict=True)]
            (splits / f"{label}_test_split{split}.txt").write_text("\n".join(lines) + "\n")
    return root


@pytest.fixture(scope="session")
def weizmann(tmp_path_factory):
    root = tmp_path_factory.mktemp("weizmann")
    for number, person in enumerate(("daria", "eli", "ido")):
        for label in ("bend", "run"):
            write_clip(root / label / f"{person}_{label}.avi", number)
    return root


@pytest.fixture(scope="session")
def split_folders(tmp_path_factory):
    """Two classes with a train and a test folder each."""
    root = tmp_path_factory.mktemp("split_folders")
    for split, count in (("train", 4), ("test", 2)):
        for label in ("left", "right"):
            for number in range(count):
                write_clip(root / split / label / f"{split}{number}.mp4", number)
    return root


@pytest.fixture(scope="session")
def backbones(tmp_path_factory):
    """Untrained networks as files, for the environment variables of the pipelines."""
    folder = tmp_path_factory.mktemp("backbones")
    networks = {
        "CONVNEXT": ("convnext_tiny", SMALL_CONVNEXT | {"image_size": 32}),
        "S4ND_CONVNEXT": ("convnext_tiny", SMALL_CONVNEXT | {"image_size": 32, "mixer": "s4nd"}),
        "INCEPTION": ("inception", {}),
        "WEIGHTS": ("timm/test_resnet", {}),
    }
    torch.manual_seed(0)
    for name, (architecture, options) in networks.items():
        options = {"num_classes": 4, **options}
        card = ModelCard(
            architecture=architecture,
            options=options,
            preprocessing=Preprocessing(image_size=32, resize=32),
        )
        save_checkpoint(folder / name, build(architecture, **options), card)
    return {name: folder / name / "model.safetensors" for name in networks}
