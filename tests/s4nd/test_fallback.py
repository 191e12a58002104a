"""Where numba does not work, or is switched off, the layer runs in plain torch."""

import importlib
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import s4nd
from s4nd import S4ND, AxisConfig, compiled
from s4nd.compiled import jit


@pytest.fixture
def monkeypatch_numba(monkeypatch):
    """Reset the check of numba, as in a new process."""
    compiled.available.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    compiled.available.cache_clear()


def assert_plain_torch_after_one_warning(reason):
    layer = S4ND(4, [AxisConfig(6, state=8), AxisConfig(5, state=8)], engine="matmul")
    signal = torch.randn(2, 4, 6, 5)
    with pytest.warns(UserWarning, match=reason) as caught:
        y = layer(signal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(signal).sum().backward()
    assert len(caught) == 1
    assert not compiled.available()
    with compiled.disabled():
        assert torch.equal(layer(signal), y)


def test_missing_numba(monkeypatch_numba):
    monkeypatch_numba.setitem(sys.modules, "numba", None)
    monkeypatch_numba.delitem(sys.modules, "s4nd.compiled.jit")
    monkeypatch_numba.delattr(compiled, "jit")
    assert_plain_torch_after_one_warning("numba does not work: ModuleNotFoundError")


def test_numba_that_cannot_be_imported(monkeypatch_numba, tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('Numba needs NumPy 1.9 or less')")
    monkeypatch_numba.syspath_prepend(tmp_path)
    monkeypatch_numba.delitem(sys.modules, "numba")
    monkeypatch_numba.delitem(sys.modules, "s4nd.compiled.jit")
    monkeypatch_numba.delattr(compiled, "jit")
    assert_plain_torch_after_one_warning("Numba needs NumPy 1.9 or less")


def test_numba_with_other_internals(monkeypatch_numba):
    """As a future version may have: the loop of `check` cannot be compiled."""
    monkeypatch_numba.setattr(jit, "_count", jit.numba.njit(lambda found, _: found.no_such_name))
    assert_plain_torch_after_one_warning("TypingError")


def test_switched_off_numba():
    program = """
import warnings
import torch
from s4nd import S4ND, AxisConfig
with warnings.catch_warnings(record=True) as caught:
    layer = S4ND(2, [AxisConfig(6, state=4), AxisConfig(6, state=4)])
    layer(torch.randn(1, 2, 6, 6)).sum().backward()
assert all(parameter.grad is not None for parameter in layer.parameters())
(warning,) = caught
assert "NUMBA_DISABLE_JIT is set" in str(warning.message), warning.message
"""
    environment = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(Path(s4nd.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_damaged_and_full_cache_folders(monkeypatch, tmp_path):
    """As after a power failure: loops are compiled again, and their files are replaced."""
    (tmp_path / "loops.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", "")  # beside the file

    def double():
        loops = importlib.reload(importlib.import_module("loops"))
        return jit.compiled(loops.double)

    assert double()(21) == 42
    index, code = sorted(tmp_path.rglob("*.nb[ic]"), key=lambda path: path.suffix, reverse=True)
    for file in (index, code):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        assert double()(21) == 42
        again = double()
        assert again(21) == 42
        assert sum(again.stats.cache_hits.values()) == 1, "the files are whole again"
    unwritten = double()
    shutil.rmtree(index.parent)
    index.parent.write_text("a file in the way")
    with pytest.warns(UserWarning, match="cannot be kept .*set NUMBA_CACHE_DIR") as caught:
        assert unwritten(21) == 42
    assert len(caught) == 1


def test_environment_variable(monkeypatch_numba):
    monkeypatch_numba.setenv("S4ND_COMPILED", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not compiled.usable(torch.zeros(1))
    compiled.available.cache_clear()
    monkeypatch_numba.setenv("S4ND_COMPILED", "no")
    with pytest.raises(ValueError, match="S4ND_COMPILED must be 0 or 1, got 'no'"):
        compiled.usable(torch.zeros(1))


def test_when_it_is_used():
    assert compiled.usable(torch.zeros(1))
    assert compiled.usable(torch.zeros(1).double())
    assert not compiled.usable(torch.zeros(1).half())
    assert not compiled.usable(torch.zeros(1, device="meta"))
    with compiled.disabled():
        assert not compiled.usable(torch.zeros(1))
        with compiled.disabled():
            pass
        assert not compiled.usable(torch.zeros(1))
    assert compiled.usable(torch.zeros(1))
