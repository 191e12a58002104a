"""Every message of the loader, word for word."""

from collections.abc import Callable
from pathlib import Path

import pytest

from videopipe.errors import ConfigError
from videopipe.pipeline.document.scalars import plain
from videopipe.pipeline.document.yaml_text import parse_yaml, write_yaml


def stage(settings: str, *, use: str = "fit", inputs: str = "clips: clips") -> str:
    """A pipeline whose second stage, `fit`, has these settings (on line 5, from column 14)."""
    return (
        "name: p\nstages:\n  clips: {use: read}\n"
        f"  fit:\n    config: {{{settings}}}\n    use: {use}\n    inputs: {{{inputs}}}\n"
    )


SETTINGS = {
    "optimiser: {lr: fast}": "p.yaml:5:30: 'fit.optimiser.lr' must be a float, got 'fast'",
    "clip_seconds: two": "p.yaml:5:28: 'fit.clip_seconds' must be a float (seconds), got 'two'",
    "epochs: 1.5": "p.yaml:5:22: 'fit.epochs' must be an integer, got '1.5'",
    "epochs: '3'": "p.yaml:5:22: 'fit.epochs' must be an integer, got '3'",
    "epochs: true": "p.yaml:5:22: 'fit.epochs' must be an integer, got 'true'",
    "epochs: ": "p.yaml:5:21: 'fit.epochs' must be an integer, got nothing",
    "epochs: 0": "p.yaml:5:22: 'fit': epochs must be 1 or more, got 0",
    "epohcs: 3": "p.yaml:5:14: unknown key 'epohcs' in fit (did you mean 'epochs'?)",
    "epochs: 3, epochs: 4": "p.yaml:5:25: duplicate key 'epochs' (first at p.yaml:5:14)",
    "rule: s4dn": (
        "p.yaml:5:20: 'fit.rule' must be one of i3d, s3d, s4nd, got 's4dn' (did you mean 's4nd'?)"
    ),
    "rule: [s4nd]": "p.yaml:5:20: 'fit.rule' must be one of i3d, s3d, s4nd, got a list",
    "optimiser: {betas: [0.9]}": ("p.yaml:5:33: 'fit.optimiser.betas' must have 2 items, got 1"),
    "optimiser: {betas: [0.9, x]}": (
        "p.yaml:5:39: 'fit.optimiser.betas[1]' must be a float, got 'x'"
    ),
    "optimiser: {betas: 0.9}": (
        "p.yaml:5:33: 'fit.optimiser.betas' must be a list of 2 floats, got '0.9'"
    ),
    "optimiser: 3": "p.yaml:5:25: 'fit.optimiser' must be a mapping of settings, got '3'",
    "shuffle: yes": "p.yaml:5:23: 'fit.shuffle' must be true or false, got 'yes'",
    "note: no": (
        "p.yaml:5:20: 'fit.note' must be a string, got 'no';"
        ' if the text itself is meant, quote it: "no"'
    ),
    "note: 12": (
        "p.yaml:5:20: 'fit.note' must be a string, got '12';"
        ' if the text itself is meant, quote it: "12"'
    ),
    "sizes: [1, two]": "p.yaml:5:25: 'fit.sizes[1]' must be an integer, got 'two'",
    "sizes: 3": "p.yaml:5:21: 'fit.sizes' must be a list of integers, got '3'",
    "options: {a: x}": "p.yaml:5:27: 'fit.options.a' must be a float, got 'x'",
    "options: 3": "p.yaml:5:23: 'fit.options' must be a mapping of names to floats, got '3'",
    "limit: none": "p.yaml:5:21: 'fit.limit' must be an integer or null, got 'none'",
    "note: *other": "p.yaml:5:20: not valid YAML: found undefined alias 'other'",
    "options: &a {b: *a}": "p.yaml:5:23: an alias inside the value that it refers to",
    "optimiser: {<<: 3}": (
        "p.yaml:5:26: '<<' takes a mapping (<<: *name) or a list of them, got '3'"
    ),
    "note: !!python/name:os.system x": (
        "p.yaml:5:20: tag 'tag:yaml.org,2002:python/name:os.system' is not supported;"
        " write a plain value"
    ),
}


@pytest.mark.parametrize(("settings", "message"), SETTINGS.items())
def test_a_wrong_setting_is_named_at_its_place(
    load: Callable[..., object], settings: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(stage(settings))
    assert caught.value.problems == (message,)


FILES = {
    "": "p.yaml: empty; expected keys 'name' and 'stages'",
    "- a": "p.yaml:1:1: expected keys 'name' and 'stages', got a list",
    "name: p": "p.yaml:1:1: 'stages' is missing; a pipeline needs at least one",
    "name: p\nstages:": "p.yaml:2:8: 'stages' is missing; a pipeline needs at least one",
    "name: p\nstages: [a]": "p.yaml:2:9: 'stages' must be a mapping of names to stages, got a list",
    "stages: {a: {use: read}}": ("p.yaml:1:1: 'name' must consist of letters, digits, - and _"),
    "name: a/b\nstages: {a: {use: read}}": (
        "p.yaml:1:7: 'name' must consist of letters, digits, - and _, got 'a/b'"
    ),
    "name: p\nstage: {}\nstages: {a: {use: read}}": (
        "p.yaml:2:1: unknown key 'stage' in the pipeline (did you mean 'stages'?)"
    ),
    "name: p\nstages: {a b: {use: read}}": (
        "p.yaml:2:10: stage name 'a b' may hold letters, digits, - and _ only"
    ),
    "name: p\nstages: {a: read}": (
        "p.yaml:2:13: stage 'a' must be a mapping with 'use', 'inputs', 'config', 'matrix',"
        " got 'read'"
    ),
    "name: p\nstages: {a: {config: {}}}": (
        "p.yaml:2:10: stage 'a' has no 'use'; it is one of read, fit, score, table"
    ),
    "name: p\nstages: {a: {use: raed}}": (
        "p.yaml:2:19: unknown stage 'raed' (did you mean 'read'?); `videopipe stages` lists them"
    ),
    "name: p\nstages: {a: {use: read, confg: {}}}": (
        "p.yaml:2:25: unknown key 'confg' in stage 'a' (did you mean 'config'?)"
    ),
    "name: p\nstages:\n\ta: 1": (
        "p.yaml:3:1: not valid YAML: found character '\\t' that cannot start any token"
        " (indent with spaces, not with tabs)"
    ),
    "name: p: q": (
        "p.yaml:1:8: not valid YAML: mapping values are not allowed here"
        " (a space is missing after a ':', or text with ': ' in it needs quotes)"
    ),
    "name: p\n---\nname: q": (
        "p.yaml:2:1: not valid YAML: but found another document (one pipeline per file)"
    ),
}


@pytest.mark.parametrize(("text", "message"), FILES.items())
def test_a_wrong_file_is_explained(load: Callable[..., object], text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert caught.value.problems == (message,)


INPUTS = {
    "clips: later": (
        "p.yaml:7:21: input 'clips' of fit is 'later', a later stage;"
        " stages run in the order written"
    ),
    "clips: fit": ("p.yaml:7:21: input 'clips' of fit is itself; stages run in the order written"),
    "clips: clisp": "p.yaml:7:21: input 'clips' of fit: no stage 'clisp' (did you mean 'clips'?)",
    "clips: [clips]": "p.yaml:7:21: input 'clips' of fit takes one stage",
    "clips: {}": (
        "p.yaml:7:21: input 'clips' of fit must be the name of an earlier stage,"
        " got an empty mapping"
    ),
    "": "p.yaml:4:3: stage 'fit' needs input 'clips': a stage that gives clips",
    "clips: clips, clip: clips": (
        "p.yaml:7:28: unknown input 'clip' of fit (did you mean 'clips'?)"
    ),
}


@pytest.mark.parametrize(("inputs", "message"), INPUTS.items())
def test_a_wrong_connection_is_found_at_its_line(
    load: Callable[..., object], inputs: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(stage("", inputs=inputs) + "  later: {use: read}\n")
    assert caught.value.problems == (message,)


def test_an_input_of_the_wrong_kind(load: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as caught:
        load("name: p\nstages:\n  a: {use: read}\n  b: {use: score, inputs: {model: a}}\n")
    assert caught.value.problems == (
        "p.yaml:4:35: input 'model' of b takes video-model or backbone, but 'a' (read) gives clips",
    )


def test_a_variable_that_is_not_set(
    load: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_PLACE", raising=False)
    text = "name: p\nstages: {a: {use: read, config: {data: $NO_SUCH_PLACE/videos}}}"
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert caught.value.problems == (
        "p.yaml:2:40: 'a.data': environment variable NO_SUCH_PLACE is not set; set it"
        " (export NO_SUCH_PLACE=…) or write the path out, got '$NO_SUCH_PLACE/videos'",
    )
    load(text, check_paths=False)


def test_a_path_that_does_not_exist(load: Callable[..., object], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load("name: p\nstages: {a: {use: read, config: {data: nowhere}}}")
    assert caught.value.problems == (f"p.yaml:2:40: 'a.data': {tmp_path}/nowhere does not exist",)


def test_paths_expand_variables_and_home(
    load: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "videos").mkdir()
    monkeypatch.setenv("PLACE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for written in ("$PLACE/videos", "${PLACE}/videos", "~/videos", "videos"):
        loaded = load(f"name: p\nstages: {{a: {{use: read, config: {{data: '{written}'}}}}}}")
        assert loaded.jobs[0].config.data == tmp_path / "videos"  # type: ignore[attr-defined]


def test_a_file_that_is_not_text(load: Callable[..., object], tmp_path: Path, stages: dict) -> None:
    from videopipe.pipeline.jobs import load_pipeline

    binary = tmp_path / "video.yaml"
    binary.write_bytes(b"name: \xff\xfe")
    with pytest.raises(ConfigError) as caught:
        load_pipeline(binary, stages)
    assert caught.value.problems == (
        f"{binary}: not a text file in UTF-8 (byte 6); is it a YAML file?",
    )


MANY_MISTAKES = """\
name: many mistakes
stages:
  clips: {use: read, config: {data: $NO_SUCH_PLACE, words: no}}
  copy:  {use: raed}
  first:
    use: fit
    inputs: {clips: second, clip: clips}
    config:
      epochs: three
      epochs: 4
      epohcs: 4
      clip_seconds: [2]
      rule: s5nd
      optimiser: {betas: [1, 2, 3]}
  second: {use: fit, inputs: {clips: first}, confg: {}}
  scores: {use: score, inputs: {model: third}}
  empty:  {use: fit, matrix: {epochs: []}}
"""


def test_all_mistakes_of_a_file_come_at_once(
    load: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_PLACE", raising=False)
    with pytest.raises(ConfigError) as caught:
        load(MANY_MISTAKES, "first.rul=i3d", "frist.rule=i3d", "first.rule")
    assert caught.value.problems == (
        "p.yaml:1:7: 'name' must consist of letters, digits, - and _, got 'many mistakes'",
        "p.yaml:3:37: 'clips.data': environment variable NO_SUCH_PLACE is not set; set it"
        " (export NO_SUCH_PLACE=…) or write the path out, got '$NO_SUCH_PLACE'",
        "p.yaml:3:60: 'clips.words' must be a string, got 'no';"
        ' if the text itself is meant, quote it: "no"',
        "p.yaml:4:16: unknown stage 'raed' (did you mean 'read'?); `videopipe stages` lists them",
        "p.yaml:7:21: input 'clips' of first is 'second', a later stage;"
        " stages run in the order written",
        "p.yaml:7:29: unknown input 'clip' of first (did you mean 'clips'?)",
        "p.yaml:9:15: 'first.epochs' must be an integer, got 'three'",
        "p.yaml:10:7: duplicate key 'epochs' (first at p.yaml:9:7)",
        "p.yaml:11:7: unknown key 'epohcs' in first (did you mean 'epochs'?)",
        "p.yaml:12:21: 'first.clip_seconds' must be a float (seconds), got a list",
        "p.yaml:13:13: 'first.rule' must be one of i3d, s3d, s4nd, got 's5nd'"
        " (did you mean 's4nd'?)",
        "p.yaml:14:26: 'first.optimiser.betas' must have 2 items, got 3",
        "p.yaml:15:38: input 'clips' of second takes clips, but 'first' (fit) gives video-model",
        "p.yaml:15:46: unknown key 'confg' in stage 'second' (did you mean 'config'?)",
        "p.yaml:16:40: input 'model' of scores: no stage 'third'"
        " (there are: clips, copy, first, second)",
        "p.yaml:17:3: stage 'empty' needs input 'clips': a stage that gives clips",
        "p.yaml:17:39: 'empty.matrix.epochs' must be a list of values, got an empty list",
        "--set frist.rule=i3d: no stage 'frist' (did you mean 'first'?)",
        "--set first.rule: expected STAGE.KEY=VALUE, such as finetuned.lr=1e-4",
        "--set first.rul=i3d: unknown key 'rul' in first (did you mean 'rule'?)",
    )


@pytest.mark.parametrize(
    ("written", "number"), [("1e-4", 1e-4), ("1E3", 1e3), ("3", 3.0), (".5", 0.5), ("1_0.5", 10.5)]
)
def test_numbers_are_numbers(load: Callable[..., object], written: str, number: float) -> None:
    config = load(stage(f"optimiser: {{lr: {written}}}")).jobs[1].config  # type: ignore[attr-defined]
    assert config.optimiser.lr == number
    assert type(config.optimiser.lr) is float


def test_written_yaml_reads_back_the_same() -> None:
    value = {
        "a": [1, 1.5, 1e-5, float("inf"), None, True],
        "b": {"c": ["no", "1e-4", "", "~", "x: y"]},
    }
    problems: list[str] = []
    node = parse_yaml(write_yaml(value), "x", problems)
    assert not problems
    assert node is not None
    assert plain(node) == value
