"""The list of stages and settings, from the dataclasses."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from videopipe import cli
from videopipe.commands.pipelines.stages import describe_stage
from videopipe.pipeline.stage import Stage
from videopipe.stages import STAGES


def test_a_stage_shows_inputs_defaults_units_and_choices(stages: dict[str, Stage[Any]]) -> None:
    assert list(describe_stage("fit", stages["fit"]))[1:] == [
        "  input clips: clips (required)",
        "  gives: video-model",
        "  epochs = 3                      an integer",
        "  clip_seconds = 2.0              a float (seconds); length of a clip",
        "  rule = s4nd                     one of i3d, s3d, s4nd",
        "  optimiser.lr = 0.001            a float; peak learning rate",
        "  optimiser.betas = [0.9, 0.999]  a list of 2 floats",
        "  note = plain                    a string",
        "  shuffle = true                  true or false",
        "  sizes = [1, 2]                  a list of integers",
        "  options = {}                    a mapping of names to floats",
        "  limit = null                    an integer or null",
        "  workers = 2                     an integer; decoding processes;"
        " does not change the result",
    ]


def unexplained(config: type, path: str) -> Iterator[str]:
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from unexplained(hints[field.name], f"{path}.{field.name}")
        elif not field.metadata.get("help"):
            yield f"{path}.{field.name}"


@pytest.mark.parametrize("name", STAGES)
def test_every_setting_of_every_stage_is_explained(name: str) -> None:
    assert not list(unexplained(STAGES[name].config, name))


def test_the_list_names_every_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stages"]) == 0
    said = capsys.readouterr().out
    for name in STAGES:
        (line,) = [line for line in said.splitlines() if line.startswith(f"{name} ")]
        assert len(line.split(maxsplit=1)[1]) > 20


def test_an_unknown_stage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stages", "finetun"]) == 1
    said = capsys.readouterr().err
    assert said == "Error: no stage 'finetun' (did you mean 'finetune'?)\n"
