"""Which tests execute a line: recorded once, and chosen by distance and duration."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = "s4nd/recurrence.py"


@pytest.fixture
def tests_of_lines(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("mutant_tests")


def line_of(text: str) -> int:
    lines = (ROOT / FILE).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


PROGRAM = """
import sys
from pathlib import Path
import pytest, mutant_lines, mutant_tests
mutant_lines.ROOT = mutant_tests.ROOT = Path.cwd()
with open("lines.jsonl", "w") as out:
    options = ["-q", "-p", "no:cacheprovider", "test_small.py"]
    pytest.main(options, plugins=[mutant_lines.LineRecorder({"small.py"}, out)])
"""
SMALL = """\
def half(x):
    if x % 2:
        return None
    return x // 2
"""
TESTS = """
from small import half
def test_odd():
    assert half(3) is None
def test_even():
    assert half(4) == 2
def test_wrong():
    assert half(4) == 3
def test_elsewhere():
    pass
"""


def test_the_lines_of_each_test_that_passes_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(SMALL)
    (tmp_path / "test_small.py").write_text(TESTS)
    search = os.pathsep.join([str(ROOT / "tools"), str(tmp_path)])
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": search},
    )
    rows = [json.loads(line) for line in (tmp_path / "lines.jsonl").read_text().splitlines()]
    assert {row["test"]: row["lines"] for row in rows} == {
        "test_small.py::test_odd": {"small.py": [1, 2, 3]},
        "test_small.py::test_even": {"small.py": [1, 2, 4]},
    }
    assert all(0 <= row["seconds"] < 60 for row in rows)


@pytest.fixture
def record(tmp_path: Path, tests_of_lines: Any) -> Path:
    step = line_of("state = self.z * state")
    rows = [
        ("tests/s4nd/test_recurrence.py::slow", 5.0, [step]),
        ("tests/s4nd/test_recurrence.py::quick", 0.5, [step]),
        ("tests/s4nd/test_modes.py::far", 0.1, [step]),
        ("tests/s4nd/test_recurrence.py::other", 0.1, [step + 1]),
    ]
    path = tmp_path / "lines.jsonl"
    texts = [
        json.dumps({"test": test, "seconds": seconds, "lines": {FILE: lines},
                    "digests": {FILE: tests_of_lines.digest(FILE)}}) + "\n"
        for test, seconds, lines in rows
    ]  # fmt: skip
    path.write_text("".join(texts))
    return path


def names(tests: list[str]) -> list[str]:
    return [test.rpartition("::")[2] for test in tests]


def test_near_and_quick_tests_of_a_line_come_first(record: Path, tests_of_lines: Any) -> None:
    found = tests_of_lines.read_lines(record)
    step = line_of("state = self.z * state")
    ordered = found.tests_for(FILE, step)
    assert names(ordered) == ["quick", "slow", "far"]
    assert names(found.within(ordered, 5.5)) == ["quick", "slow"]
    assert names(found.within(ordered, 0.1)) == ["quick"], "at least one"
    assert names(found.tests_for(FILE, step + 1)) == ["other"]
    # No test executes this line: tests of the same function stand in, at a module's level none.
    assert set(names(found.tests_for(FILE, step - 1))) == {"quick", "slow", "far", "other"}
    assert found.tests_for(FILE, 1) == []


def test_lines_of_a_file_that_has_changed_since_are_not_used(
    record: Path, tests_of_lines: Any
) -> None:
    record.write_text(record.read_text().replace(tests_of_lines.digest(FILE), "0" * 16))
    found = tests_of_lines.read_lines(record)
    assert found.tests_for(FILE, line_of("state = self.z * state")) == []
    assert found.unrecorded([["tests/s4nd/test_modes.py", "tests/s4nd/test_layer.py"]]) == [
        ["tests/s4nd/test_layer.py"]
    ]
