"""The mutation tool changes only expressions that results depend on."""

import importlib
import json
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("mutants")


def test_mutants_of_a_small_file(tool, tmp_path):
    path = tmp_path / "é.py"
    path.write_text(
        '"""Doc 1."""\n'
        "def f(x: tuple[int, 3] = 2) -> int:\n"
        "    if x < 4 and not g(x, é=True):\n"
        '        raise ValueError(f"{x + 1}")\n'
        "    return x - 1\n"
    )
    mutants = list(tool.mutants_of(path, tmp_path))
    assert {(m.before, m.after) for m in mutants} == {
        ("2", "3"), ("x < 4 and (not g(x, é=True))", "x < 4 or not g(x, é=True)"),
        ("x < 4", "x <= 4"), ("4", "5"), ("not g(x, é=True)", "g(x, é=True)"),
        ("g(x, é=True)", "g(x)"), ("True", "False"), ("x - 1", "x + 1"), ("1", "2"),
    }  # fmt: skip
    text = path.read_text()
    for mutant in mutants:
        compile(f"{text[: mutant.start]}({mutant.after}){text[mutant.end :]}", "é.py", "exec")


def test_what_no_result_depends_on_is_left_out(tool, tmp_path):
    path = tmp_path / "sizes.py"
    path.write_text(
        '__all__ = ["f"][:1]\n'
        "CACHE_BYTES = 128 * 2**20\n"
        "SHARE: int = 8\n"
        "pairs = zip(x, y, strict=True)\n"
        'made = torch.zeros(n, dtype=wide, device=x.device if x is not None else "cpu")\n'
    )
    assert [(m.before.partition("(")[0], m.after) for m in tool.mutants_of(path, tmp_path)] == [
        ("8", "9"),
        ("torch.zeros", "torch.zeros(n, device=x.device if x is not None else 'cpu')"),
    ]


def test_targets_exist_and_their_tests_are_found(tool):
    for pattern in tool.TARGETS:
        assert list(tool.ROOT.glob(pattern)), pattern
    distances = importlib.import_module("mutant_tests").tests_of("s4nd/kernels/kernel.py")
    assert distances["tests/s4nd/kernels/test_kernel.py"] == 0
    assert distances["tests/s4nd/test_layer.py"] == 2
    groups = tool.groups_of_tests("s4nd/kernels/kernel.py", {})
    assert sorted(name for group in groups for name in group) == sorted(distances)


def test_the_nearest_file_comes_first_and_then_the_quickest(tool):
    seconds = {"tests/s4nd/test_layer.py": 0.5, "tests/s4nd/test_modes.py": 0.1}
    nearest, *groups = tool.groups_of_tests("s4nd/kernels/kernel.py", seconds)
    assert nearest == ["tests/s4nd/kernels/test_kernel.py"]
    folder = [name for name in groups[-1] if name.startswith("tests/s4nd/")]
    assert folder[:2] == ["tests/s4nd/test_modes.py", "tests/s4nd/test_layer.py"]


SMALL = {
    "small.py": "def twice(x):\n    return x * 2\n",
    "test_weak.py": "import small\ndef test_it():\n    assert small.twice(0) == 0\n",
    "test_strong.py": "import small\ndef test_it():\n    assert small.twice(3) == 6\n",
}


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    for name, text in SMALL.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "limit", "state", "by", "passed"),
    [
        (["test_weak.py"], 60, "survived", "", ["test_weak.py"]),
        (["test_weak.py", "test_strong.py"], 60, "caught", "test_strong.py::test_it",
         ["test_weak.py"]),
        (["test_weak.py"], 0, "open", "", []),
        (["test_missing.py"], 60, "caught", "exit code 4", []),
    ],
)  # fmt: skip
def test_outcomes_of_a_changed_product(tool, tree, files, limit, state, by, passed):
    text = SMALL["small.py"]
    start = text.index("x * 2")
    mutant = tool.Mutant("small.py", 2, "x * 2", "x / 2", start, start + 5)
    outcome = tool.examine(mutant, tree, [[name] for name in files], limit)
    assert (outcome.state, outcome.by, list(outcome.passed)) == (state, by, passed)
    assert (tree / "small.py").read_text() == text


def test_a_test_that_ends_the_process_has_caught_the_mutant(tool, tree):
    (tree / "test_exit.py").write_text("import os\ndef test_it():\n    os.kill(os.getpid(), 9)\n")
    outcome = tool.examine(tool.Mutant("small.py", 1, "", "", 0, 0), tree, [["test_exit.py"]], 60)
    assert outcome == tool.Outcome("caught", "test_exit.py::test_it (crashed or hung)", {})


def test_a_record_gives_the_last_outcome_and_the_seconds_of_each_file(tool, tmp_path):
    mutant = {"file": "a.py", "line": 1, "before": "1", "after": "2", "start": 0, "end": 1}
    rows = [
        {"mutant": mutant, "state": "open", "by": "", "passed": {"test_a.py": 3.0}},
        {"mutant": mutant, "state": "caught", "by": "t", "passed": {"test_a.py": 2.0}},
    ]
    path = tmp_path / "record.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    outcomes, seconds = tool.read_record(path)
    assert [outcome.state for outcome in outcomes.values()] == ["caught"]
    assert seconds == {"test_a.py": 2.0}
    assert tool.read_record(tmp_path / "none.jsonl") == ({}, {})
