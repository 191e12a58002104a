"""The commands of docs/journeys/practitioner.md print the output shown there."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.journeys.walk import VARIABLES, Command, Walk, read_page


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_an_image_network_becomes_a_video_classifier(
    tmp_path: Path, weizmann: Path, weights: str
) -> None:
    steps = read_page("practitioner.md")
    run = next(s for s in steps if isinstance(s, Command) and "epochs=20" in s.text)
    last = steps[-1]
    assert isinstance(last, Command)
    # Enough to run every stage, too little to learn certain labels.
    steps[steps.index(run)] = replace(run, text=run.text.replace("epochs=20", "epochs=1"))
    steps[-1] = replace(last, output=last.output[:1])
    walk = Walk(
        tmp_path,
        {**VARIABLES, "WEIZMANN": str(weizmann), "WEIGHTS": weights},
        {str(weizmann): "/data/weizmann"},
    )
    walk.take(steps)
    rows = (tmp_path / "new.csv").read_text().splitlines()
    assert len(rows) == 1 + len(list(weizmann.iterdir()))
    assert all(",ok," in row for row in rows[1:])
