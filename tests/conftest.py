"""Fixtures of every test: the shared folder, small video files, a seed."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

# Some virtual machines announce matrix units (AMX) they do not have; bf16 layers would then kill
# the process. Must be set before torch is imported.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# On a GPU `engine="auto"` would measure, and results would depend on the machine.
os.environ.setdefault("S4ND_ENGINE_CHOICE", "rule")

pytest_plugins = ["tests.browser", "tests.videopipe.tiny_model"]

REPOSITORY = Path(__file__).resolve().parents[1]


def pytest_configure() -> None:
    """Handle Ctrl-C again: background shells ignore it, and child processes inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # No deadline: on a busy machine an example may take longer than hypothesis expects.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")


SHARED = Path(os.environ.get("VIDEOPIPE_SHARED", REPOSITORY.parent / "shared"))


def pytest_report_header() -> str:
    if SHARED.is_dir():
        return f"real files: {SHARED}"
    remedy = "set VIDEOPIPE_SHARED to a folder with data/ of real videos, images and weights"
    return f"real files: none at {SHARED}, tests of them are left out; {remedy}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of real files where there are none; the header reports it."""
    if SHARED.is_dir():
        return
    real = [item for item in items if _reads_real_files(item)]
    config.hook.pytest_deselected(items=real)
    items[:] = [item for item in items if not _reads_real_files(item)]


def _reads_real_files(item: pytest.Item) -> bool:
    """Whether a test uses the fixture `shared`, and not a parameter of that name."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return "shared" in getattr(item, "fixturenames", ()) and "shared" not in parameters


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real videos, images and weights. Its tests are left out where it is missing."""
    return SHARED


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The folder of numbers computed by the public S4ND code."""
    return REPOSITORY / "tests" / "data" / "oracle"


@pytest.fixture(autouse=True)
def seed() -> int:
    """Every test starts from the same random state."""
    random.seed(0)
    np.random.seed(0)
    try:
        import torch
    except ImportError:
        return 0
    torch.manual_seed(0)
    return 0


@pytest.fixture(scope="session")
def tiny_video() -> Callable[..., Path]:
    """Writes a video whose frame number is its grey level: frame i is `grey_of(i)` everywhere.

    `tiny_video(path, num_frames=30, frame_rate=15, height=32, width=48)` -> path
    """
    from videopipe.video.writing import write_video

    def write(
        path: Path,
        num_frames: int = 30,
        frame_rate: float = 15.0,
        height: int = 32,
        width: int = 48,
        **options: object,
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        frames = (
            np.full((height, width, 3), grey_of(index, num_frames), dtype=np.uint8)
            for index in range(num_frames)
        )
        write_video(path, frames, frame_rate=frame_rate, **({"quality": 4} | options))
        return path

    return write


def grey_of(index: int, num_frames: int) -> int:
    """The grey level of a frame of `tiny_video`: evenly spread, far from black and white."""
    return 20 + round(index * min(4.0, 210 / max(num_frames - 1, 1)))


@pytest.fixture(scope="session", name="grey_of")
def grey_of_fixture() -> Callable[[int, int], int]:
    """`grey_of(index, num_frames)`: the grey level of a frame of `tiny_video`."""
    return grey_of
