"""A few generated videos that differ by motion only, and a small inflated network."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.videopipe.tiny_model import save_image_network
from videopipe.pipeline.stage import Inputs, Result

MOTIONS = ("left", "right")


@pytest.fixture(scope="session")
def make_clips(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`make_clips(train=8, val=3, test=4)` -> the folder of a manifest; videos per class."""
    from videopipe.dataset.layouts.recognise import find_dataset
    from videopipe.dataset.manifest import write_manifest
    from videopipe.stages.generate import GenerateConfig
    from videopipe.stages.generate import run as generate

    def make(train: int, val: int, test: int) -> Path:
        folder = tmp_path_factory.mktemp("motion")
        config = GenerateConfig(
            motions=MOTIONS, train_videos=train, val_videos=val, test_videos=test, unseen_videos=0,
            train_images=0, val_images=0, size_pixels=32, frame_rates=(12.0,), longest_seconds=1.6,
        )  # fmt: skip
        generate(config, Inputs({}), folder)
        write_manifest(folder / "clips", find_dataset(folder / "videos"))
        return folder / "clips"

    return make


@pytest.fixture(scope="session")
def motion_clips(make_clips: Callable[..., Path]) -> Path:
    """Two classes: 8 training, 6 validation and 8 test videos."""
    return make_clips(train=4, val=3, test=4)


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`make_model(method="s4nd")` -> a checkpoint folder: a small residual network on clips."""
    import torch

    from pretrained_2d.checkpoints.card import ModelCard, Preprocessing
    from pretrained_2d.checkpoints.folder import save_checkpoint
    from pretrained_2d.networks.backbones import build
    from videopipe.inflation import InflationOptions, inflate_checkpoint

    def make(num_classes: int = 2, **options: object) -> Path:
        folder = tmp_path_factory.mktemp("model")
        torch.manual_seed(0)
        card = ModelCard(
            architecture="timm/test_resnet",
            options={"num_classes": num_classes},
            preprocessing=Preprocessing(image_size=32, resize=32),
        )
        save_checkpoint(folder / "flat", build(card.architecture, **card.options), card)
        chosen = {"num_frames": 8, "clip_seconds": 1.2, "basis": "diag-lin", "state": 16}
        inflate_checkpoint(folder / "flat", folder / "video", InflationOptions(**chosen | options))
        return folder / "video"

    return make


@pytest.fixture(scope="session")
def motion_model(make_model: Callable[..., Path]) -> Path:
    """A network with a random S4ND kernel along time behind every convolution."""
    return make_model(method="s4nd", start="random", length=4.0)


@pytest.fixture(scope="session")
def model(motion_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small network with names for its classes, as fine-tuning would leave it."""
    from dataclasses import replace

    from pretrained_2d.checkpoints.folder import save_checkpoint
    from videopipe.models import load_model

    folder = tmp_path_factory.mktemp("named")
    network, card = load_model(motion_model)
    story = {**card.provenance, "protocol": "validation"}
    save_checkpoint(folder, network, replace(card, labels=("left", "right"), provenance=story))
    return folder


def given(**folders: Path) -> Inputs:
    """Inputs of a stage from folders."""
    return Inputs({name: [Result(folder, name)] for name, folder in folders.items()})


@pytest.fixture(scope="session", name="given")
def given_fixture() -> Callable[..., Inputs]:
    """`given(model=folder, clips=folder)` -> the inputs of a stage."""
    return given


@pytest.fixture(scope="session")
def flat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained network for images."""
    return save_image_network(tmp_path_factory.mktemp("flat"), 5)


@pytest.fixture(scope="session")
def motion_features(
    flat_model: Path, motion_clips: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Features of `motion_clips`: one view of four frames each."""
    from videopipe.probing.probe_config import FeaturesConfig
    from videopipe.scoring.settings import Execution
    from videopipe.stages.features import run

    out = tmp_path_factory.mktemp("features")
    execution = Execution(device="cpu", workers=1, threads=1)
    config = FeaturesConfig(num_frames=4, clip_seconds=1.6, execution=execution)
    run(config, given(model=flat_model, clips=motion_clips), out)
    return out
