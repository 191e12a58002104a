"""Anchors, aliases, merge keys and `defaults`."""

from collections.abc import Callable

import pytest

from videopipe.errors import ConfigError
from videopipe.pipeline.document.yaml_text import write_yaml
from videopipe.pipeline.jobs import Pipeline

Load = Callable[..., Pipeline]

SHARED = """\
name: shared
defaults:
  fit: {epochs: 7, optimiser: {lr: 0.5}, options: {a: 1}, limit: 4}
stages:
  clips: {use: read}
  one:
    use: fit
    inputs: &from_clips {clips: clips}
    config: &settings {clip_seconds: 4, optimiser: {betas: [0.5, 0.6]}, limit: null}
  two:
    use: fit
    inputs: *from_clips
    config: {<<: *settings, clip_seconds: 5}
  three: {use: fit, inputs: *from_clips, matrix: {epochs: [1, 2]}}
"""


def test_defaults_anchors_and_merge_keys_save_repetition(load: Load) -> None:
    pipeline = load(SHARED)
    one, two, first, second = (job.config for job in pipeline.jobs if job.stage != "clips")
    assert (one.epochs, one.clip_seconds, one.limit) == (7, 4, None)
    assert (one.optimiser.lr, one.optimiser.betas) == (0.5, (0.5, 0.6))
    assert (two.epochs, two.clip_seconds, two.optimiser) == (7, 5, one.optimiser)
    assert (first.epochs, second.epochs, first.limit) == (1, 2, 4), "the matrix wins over defaults"
    again = load(write_yaml(dict(pipeline.resolved)))
    assert [job.fingerprint for job in again.jobs] == [job.fingerprint for job in pipeline.jobs]
    assert "defaults" not in again.resolved


MISTAKES = [
    ("  fit: {", "  fitt: {", "3:3: defaults of an unknown stage 'fitt' (did you mean 'fit'?)"),
    (
        "  fit: {",
        "  table: {}\n  fit: {",
        "3:10: defaults of 'table', but no stage has use: table",
    ),
    ("epochs: 7", "epohcs: 7", "3:9: unknown key 'epohcs' in one (did you mean 'epochs'?)"),
    ("limit: null}", "limit: x}", "9:80: 'one.limit' must be an integer or null, got 'x'"),
]


@pytest.mark.parametrize(("old", "new", "problem"), MISTAKES)
def test_mistakes_in_shared_values(load: Load, old: str, new: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(SHARED.replace(old, new))
    assert f"p.yaml:{problem}" in caught.value.problems
    if "one.limit" in problem:  # where the value is written, also for the stage that shares it
        assert f"p.yaml:{problem.replace('one', 'two')}" in caught.value.problems


def test_a_file_that_multiplies_its_aliases_is_refused_at_once(load: Load) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 40)]
    with pytest.raises(ConfigError) as caught:
        load("\n".join(lines))
    (problem,) = caught.value.problems
    assert "values once the aliases are written out, more than 20000" in problem
