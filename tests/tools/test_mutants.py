"""The mutation tool changes what is computed, and nothing else."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "mutants.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mutants_of_a_small_file(tool, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    path = tmp_path / "é.py"
    path.write_text(
        '"""Doc 1."""\n'
        "def f(x: tuple[int, 3] = 2) -> int:\n"
        "    if x < 4 and not g(x, é=True):\n"
        '        raise ValueError(f"{x + 1}")\n'
        "    return x - 1\n"
    )
    mutants = list(tool.mutants_of(path))
    assert {(m.before, m.after) for m in mutants} == {
        ("2", "3"), ("x < 4 and (not g(x, é=True))", "x < 4 or not g(x, é=True)"),
        ("x < 4", "x <= 4"), ("4", "5"), ("not g(x, é=True)", "g(x, é=True)"),
        ("g(x, é=True)", "g(x)"), ("True", "False"), ("x - 1", "x + 1"), ("1", "2"),
    }  # fmt: skip
    text = path.read_text()
    for mutant in mutants:
        compile(f"{text[: mutant.start]}({mutant.after}){text[mutant.end :]}", "é.py", "exec")


def test_targets_exist_and_their_tests_are_found(tool):
    for pattern in tool.TARGETS:
        assert list(tool.ROOT.glob(pattern)), pattern
    assert "tests/s4nd/test_kernel.py" in tool.tests_of("s4nd/kernel.py")


@pytest.mark.slow
def test_a_wrong_sign_is_caught_and_the_tree_is_restored(tool, tmp_path):
    tree = tool.copy_tree(tmp_path / "tree")
    path = tool.ROOT / "pretrained_2d/training/optimiser.py"
    mutant = next(m for m in tool.mutants_of(path) if " - " in m.before)
    assert tool.caught(mutant, tree)
    assert (tree / mutant.file).read_text() == path.read_text()
