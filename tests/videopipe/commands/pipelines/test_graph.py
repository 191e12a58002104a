"""A pipeline drawn as text and as Mermaid."""

from collections.abc import Callable

from videopipe.commands.pipelines.graph import as_mermaid, as_text
from videopipe.pipeline.jobs import Pipeline

TEXT = """\
name: ablation
stages:
  clips:    {use: read}
  model:    {use: fit, inputs: {clips: clips}, matrix: {rule: [i3d, s4nd]}}
  my-scores: {use: score, inputs: {model: model, clips: clips}}
  table:    {use: table, inputs: {scores: my-scores}}
"""


def test_text(load: Callable[..., Pipeline]) -> None:
    assert list(as_text(load(TEXT))) == [
        "ablation",
        "  clips      read",
        "  model      fit  × 2  <- clips  matrix: rule in [i3d, s4nd]",
        "  my-scores  score  × 2  <- model, clips",
        "  table      table  <- my-scores",
    ]


def test_mermaid(load: Callable[..., Pipeline]) -> None:
    assert list(as_mermaid(load(TEXT))) == [
        "flowchart TD",
        '    stage_clips["clips<br/><i>read</i>"]',
        '    stage_model["model<br/><i>fit</i><br/>rule: [i3d, s4nd]"]',
        '    stage_my_scores["my-scores<br/><i>score</i>"]',
        '    stage_table["table<br/><i>table</i>"]',
        "    stage_clips -->|clips| stage_model",
        "    stage_model -->|model| stage_my_scores",
        "    stage_clips -->|clips| stage_my_scores",
        "    stage_my_scores -->|scores| stage_table",
    ]
