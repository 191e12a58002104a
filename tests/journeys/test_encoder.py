"""The commands of docs/journeys/encoder.md print the output shown there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.journeys.walk import VARIABLES, Command, Walk, read_page


def without_labels(step: object) -> object:
    """Replace neighbours and labels, which depend on the processor and on the real videos."""
    if isinstance(step, Command) and step.text.startswith("python - <<"):
        return replace(step, output=step.output[:1])
    if isinstance(step, Command) and step.text == "cat day.vtt":
        return replace(step, output=step.output[:2])
    if isinstance(step, Command) and "--timeline" in step.text:
        return replace(step, output=tuple(line for line in step.output if "intervals" not in line))
    return step


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_an_encoder_embeds_classifies_and_is_exported(
    tmp_path: Path, weizmann: Path, weights: str
) -> None:
    variables = {**VARIABLES, "WEIZMANN": str(weizmann), "WEIGHTS": weights}
    steps = [without_labels(step) for step in read_page("encoder.md")]
    Walk(tmp_path, variables, {str(weizmann): "/data/weizmann"}).take(steps)
    labels = json.loads((tmp_path / "drive.onnx.json").read_text())["labels"]
    assert labels == sorted(folder.name for folder in weizmann.iterdir())
