"""Documents made by hypothesis: the loader reads back what is written, and never crashes."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.videopipe.conftest import STAGES, FitConfig, OptimiserConfig
from videopipe.errors import ConfigError
from videopipe.pipeline.document.scalars import plain
from videopipe.pipeline.document.yaml_text import parse_yaml, write_yaml
from videopipe.pipeline.jobs import Pipeline, load_pipeline

finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    ["no", "On", "1e-4", "0x1F", "1:30", "~", "null", "", " ", "=", "<<", "2001-01-01", "#", "- a"]
)
scalars = st.none() | st.booleans() | st.integers() | finite | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)


def load(text: str, folder: str) -> Pipeline:
    path = Path(folder, "p.yaml")
    path.write_text(text, encoding="utf-8", newline="")
    return load_pipeline(path, STAGES)


@settings(max_examples=100, deadline=None)
@example({"\x85": "a\u2028b"})
@given(st.dictionaries(texts, values, max_size=4))
def test_written_values_read_back_the_same(value: dict[str, Any]) -> None:
    problems: list[str] = []
    node = parse_yaml(write_yaml({"top": value}), "x", problems)
    assert not problems
    assert node is not None
    assert plain(node) == {"top": value}


configs = st.builds(
    FitConfig,
    epochs=st.integers(1, 10**6),
    clip_seconds=finite,
    rule=st.sampled_from(["i3d", "s3d", "s4nd"]),
    optimiser=st.builds(OptimiserConfig, lr=finite, betas=st.tuples(finite, finite)),
    note=texts,
    shuffle=st.booleans(),
    sizes=st.lists(st.integers(), max_size=4).map(tuple),
    options=st.dictionaries(texts, finite, max_size=3),
    limit=st.none() | st.integers(),
)


@settings(max_examples=40, deadline=None)
@given(configs)
def test_a_config_comes_out_of_its_document(config: FitConfig) -> None:
    fit = {"use": "fit", "inputs": {"clips": "clips"}, "config": as_written(config)}
    text = write_yaml({"name": "p", "stages": {"clips": {"use": "read"}, "fit": fit}})
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(text, folder)
        assert loaded.jobs[1].config == config
        # The resolved document, which a run keeps, is the same pipeline.
        again = load(write_yaml(loaded.resolved), folder)
    assert [job.identity for job in again.jobs] == [job.identity for job in loaded.jobs]


def as_written(config: FitConfig) -> dict[str, Any]:
    """Tuples become lists, as in YAML."""
    found = dataclasses.asdict(config)
    found["sizes"], betas = list(config.sizes), list(config.optimiser.betas)
    return found | {"optimiser": {"lr": config.optimiser.lr, "betas": betas}}


WHOLE = """\
name: p
stages:
  clips: {use: read, config: {words: "a b", data: $HOME}}
  fit: &fit
    use: fit
    inputs: {clips: clips}
    config: {epochs: 3, rule: s4nd, optimiser: {lr: 1e-4, betas: [0.9, 0.99]}}
    matrix: {epochs: [1, 2]}
  scores: {use: score, inputs: {model: fit}}
  table: {use: table, inputs: {scores: [scores]}}
"""
PIECES = st.sampled_from([
    "{", "}", "[", "]", ":", ": ", ",", "\n", "  ", "- ", "*fit", "&a ", "<<: *fit", "!!int ", "!x",
    "null", "~", "1", "1e999", "-.inf", "on", "'", '"', "|", ">", "%", "@", "\t", "\0", "\x85", "é",
    "use: fit", "config:", "matrix: {rule: [i3d]}", "inputs: {clips: clips}", "---\n", "...\n", "#",
    "fit", "$", "${", "~/", "9" * 5000,
])  # fmt: skip
edits = st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 30), PIECES), max_size=4)


@settings(max_examples=300, deadline=None)
@given(edits)
@example([])
@example([(WHOLE.index("epochs: 3") + 8, 1, "9" * 5000)])
def test_a_damaged_pipeline_is_read_or_refused_with_a_position(edits: list) -> None:
    text = WHOLE
    for place, removed, piece in edits:
        text = text[:place] + piece + text[place + removed :]
    with tempfile.TemporaryDirectory() as folder:
        pipeline, problems = load_or_refuse(text, folder)
        assert (pipeline is None) == bool(problems)
        assert all(problem.startswith(f"{folder}/p.yaml:") for problem in problems)
    if pipeline is not None:
        assert len({job.label for job in pipeline.jobs}) == len(pipeline.jobs)


def load_or_refuse(text: str, folder: str) -> tuple[Pipeline | None, tuple[str, ...]]:
    try:
        return load(text, folder), ()
    except ConfigError as error:
        return None, error.problems


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.lists(PIECES, max_size=20).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    problems: list[str] = []
    node = parse_yaml(text, "x", problems)
    assert (node is None) <= bool(problems)
