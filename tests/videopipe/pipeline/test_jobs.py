"""The matrix, overrides, and the resolved file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from videopipe.errors import ConfigError
from videopipe.pipeline.document.yaml_text import write_yaml
from videopipe.pipeline.jobs import Pipeline, find_pipeline, load_pipeline, shipped_pipelines
from videopipe.stages import STAGES

Load = Callable[..., Pipeline]

MATRIX = """\
name: ablation
stages:
  clips:  {use: read}
  model:
    use: fit
    inputs: {clips: clips}
    matrix: {rule: [i3d, s4nd], optimiser.lr: [1e-3, 1e-4]}
  scores: {use: score, inputs: {model: model, clips: clips}}
  table:  {use: table, inputs: {scores: scores}}
"""


def test_a_matrix_spreads_its_stage_and_all_downstream(load: Load) -> None:
    pipeline = load(MATRIX)
    counts = {stage: sum(job.stage == stage for job in pipeline.jobs) for stage in pipeline.stages}
    assert counts == {"clips": 1, "model": 4, "scores": 4, "table": 1}
    variants = [dict(job.variant) for job in pipeline.jobs if job.stage == "scores"]
    assert variants == [
        {"rule": "i3d", "optimiser.lr": 1e-3},
        {"rule": "i3d", "optimiser.lr": 1e-4},
        {"rule": "s4nd", "optimiser.lr": 1e-3},
        {"rule": "s4nd", "optimiser.lr": 1e-4},
    ]
    table = pipeline.jobs[-1]
    assert [dict(job.variant) for job in table.inputs["scores"]] == variants
    for job in pipeline.jobs[5:9]:
        assert dict(job.inputs["model"][0].variant) == dict(job.variant)
    assert pipeline.jobs[1].label == "model (rule=i3d, optimiser.lr=0.001)"


def test_upstream_is_shared(load: Load) -> None:
    models = [job for job in load(MATRIX).jobs if job.stage == "model"]
    assert len({model.inputs["clips"][0] for model in models}) == 1
    assert len({model.fingerprint for model in models}) == 4


TWO_AXES = """\
name: two
stages:
  a: {use: read, matrix: {words: [x, y]}}
  b: {use: fit, inputs: {clips: a}, matrix: {epochs: [1, 2]}}
  c: {use: score, inputs: {model: b, clips: a}}
  d: {use: table, inputs: {scores: [c]}}
"""


def test_inputs_of_one_job_agree_on_the_axes_they_share(load: Load) -> None:
    jobs = [job for job in load(TWO_AXES).jobs if job.stage == "c"]
    assert len(jobs) == 4
    for job in jobs:
        assert job.inputs["clips"][0].variant["words"] == job.variant["words"]
        assert job.inputs["model"][0].variant["words"] == job.variant["words"]


def test_axes_of_one_name_in_two_stages_keep_apart(load: Load) -> None:
    text = TWO_AXES.replace("epochs: [1, 2]", "note: [x, y]").replace(
        "words: [x, y]", "words: [x, y]"
    )
    twice = (
        "name: twice\nstages:\n"
        "  a: {use: read}\n"
        "  b: {use: fit, inputs: {clips: a}, matrix: {epochs: [1, 2]}}\n"
        "  c: {use: fit, inputs: {clips: a}, matrix: {epochs: [2, 3]}}\n"
        "  d: {use: score, inputs: {model: b}}\n"
        "  e: {use: score, inputs: {model: c}}\n"
        "  f: {use: table, inputs: {scores: [d, e]}}\n"
    )
    assert len(load(text).jobs) == 2 + 4 + 4 + 1
    collected = load(twice).jobs[-1].inputs["scores"]
    assert [dict(job.variant) for job in collected] == [
        {"b.epochs": 1},
        {"b.epochs": 2},
        {"c.epochs": 2},
        {"c.epochs": 3},
    ]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ("epochs: [1, 1]", "p.yaml:4:3: the matrix of 'm' repeats {'epochs': 1}"),
        ("epochs: 1", "p.yaml:4:54: 'm.matrix.epochs' must be a list of values, got '1'"),
        ("epohcs: [1]", "p.yaml:4:46: unknown key 'epohcs' in m (did you mean 'epochs'?)"),
        ("epochs: [1, x]", "p.yaml:4:58: 'm.epochs' must be an integer, got 'x'"),
        (
            "rule: [s4nd]",
            "p.yaml:4:76: 'm.rule' is varied by the matrix;"
            " to run through other values, set m.matrix.rule=[…]",
        ),
    ],
)
def test_a_wrong_matrix(load: Load, matrix: str, message: str) -> None:
    stage = (
        f"  m: {{use: fit, inputs: {{clips: c}}, matrix: {{{matrix}}}, config: {{rule: i3d}}}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(f"name: p\nstages:\n  c: {{use: read}}\n{stage}")
    assert caught.value.problems == (message,)


def test_set_is_typed_like_the_file(load: Load) -> None:
    pipeline = load(
        MATRIX,
        "model.clip_seconds=3",
        "model.optimiser.betas=[0.8, 0.9]",
        "clips.words=other words",
        "model.limit=",
        "model.matrix.rule=[s3d]",
    )
    assert [job.stage for job in pipeline.jobs].count("model") == 2
    config = pipeline.jobs[1].config
    assert config.clip_seconds == 3.0
    assert config.optimiser.betas == (0.8, 0.9)
    assert config.rule == "s3d"
    assert pipeline.jobs[0].config.words == "other words"


def test_a_setting_becomes_a_matrix(load: Load) -> None:
    text = """\
name: p
stages:
  clips: {use: read}
  model: {use: fit, inputs: {clips: clips}, config: {epochs: 9, optimiser: {lr: 1e-2}, limit: 4}}
"""
    pipeline = load(text, "model.matrix.epochs=[1, 2]", "model.matrix.optimiser.lr=[1e-3]")
    found = [(job.config.epochs, job.config.optimiser.lr) for job in pipeline.jobs[1:]]
    assert found == [(1, 1e-3), (2, 1e-3)]
    assert pipeline.jobs[1].config.limit == 4


def test_labels_show_a_value_as_it_is_written(load: Load) -> None:
    text = """\
name: p
stages:
  clips: {use: read}
  model: {use: fit, inputs: {clips: clips}, matrix: {clip_seconds: [2, 0.5]}}
  other: {use: fit, inputs: {clips: clips}, matrix: {limit: [4, null]}}
"""
    labels = [job.label for job in load(text).jobs]
    assert labels[1:3] == ["model (clip_seconds=2)", "model (clip_seconds=0.5)"]
    assert labels[3:] == ["other (limit=4)", "other (limit=null)"]


def test_a_pattern_sets_every_stage_that_fits(load: Load) -> None:
    text = """\
name: p
stages:
  clips: {use: read}
  a_tuned: {use: fit, inputs: {clips: clips}}
  b_tuned: {use: fit, inputs: {clips: clips}, config: {epochs: 9}}
  other: {use: fit, inputs: {clips: clips}}
"""
    pipeline = load(text, "*_tuned.epochs=1")
    assert [job.config.epochs for job in pipeline.jobs[1:]] == [1, 1, 3]
    with pytest.raises(ConfigError, match=r"no stage 'x\*' \(there are: clips, a_tuned"):
        load(text, "x*.epochs=1")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.epochs=x", "--set model.epochs=x: 'model.epochs' must be an integer, got 'x'"),
        (
            "model.rule=i3d",
            "--set model.rule=i3d: 'model.rule' is varied by the matrix;"
            " to run through other values, set model.matrix.rule=[…]",
        ),
        ("epochs=3", "--set epochs=3: expected STAGE.KEY=VALUE, such as finetuned.lr=1e-4"),
        ("modle.epochs=3", "--set modle.epochs=3: no stage 'modle' (did you mean 'model'?)"),
        (
            "model.sizes=[1",
            "--set model.sizes=[1: not valid YAML: expected ',' or ']', but got '<stream end>'",
        ),
    ],
)
def test_a_wrong_set(load: Load, override: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(MATRIX, override)
    assert caught.value.problems == (message,)


def test_set_reaches_inputs_use_the_whole_matrix_and_defaults(load: Load) -> None:
    text = MATRIX.replace("  model:", "  other:  {use: read, config: {words: x}}\n  model:")
    pipeline = load(
        text, "model.inputs.clips=other", "model.matrix={epochs: [1, 2, 3]}", "table.use=table",
    )  # fmt: skip
    models = [job for job in pipeline.jobs if job.stage == "model"]
    assert [job.config.epochs for job in models] == [1, 2, 3]
    assert {job.inputs["clips"][0].stage for job in models} == {"other"}
    assert len([job for job in load(MATRIX, "model.matrix=null").jobs if job.stage == "model"]) == 1
    whole = load(MATRIX, "model.inputs={clips: clips}", "defaults.fit.note=said")
    assert {job.config.note for job in whole.jobs if job.stage == "model"} == {"said"}
    with pytest.raises(ConfigError, match=r"--set scores\.use=fti: unknown stage 'fti'"):
        load(MATRIX, "scores.use=fti")


@pytest.mark.parametrize("overrides", [(), ("model.epochs=7", "clips.words='1e-4'")])
def test_the_resolved_file_is_a_valid_input_with_the_same_fingerprints(
    load: Load, overrides: tuple[str, ...]
) -> None:
    pipeline = load(MATRIX, *overrides)
    again = load(write_yaml(dict(pipeline.resolved)))
    assert [job.fingerprint for job in again.jobs] == [job.fingerprint for job in pipeline.jobs]
    assert again.resolved == pipeline.resolved
    assert "workers: 2" in write_yaml(dict(pipeline.resolved))


@pytest.mark.parametrize("path", sorted(shipped_pipelines().glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_pipeline_loads_and_resolves(path: Path, tmp_path: Path) -> None:
    pipeline = load_pipeline(path, STAGES, check_paths=False)
    assert pipeline.name == path.stem
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(write_yaml(dict(pipeline.resolved)))
    again = load_pipeline(resolved, STAGES, check_paths=False)
    assert again.resolved == pipeline.resolved


def test_there_are_shipped_pipelines() -> None:
    assert find_pipeline("demo").name == "demo.yaml"


def test_a_pipeline_that_is_not_there() -> None:
    with pytest.raises(ConfigError) as caught:
        find_pipeline("deom")
    assert caught.value.problems == (
        "deom: no such file, and no pipeline of that name (did you mean 'demo'?)",
    )
