"""Which test files belong to a module and which tests to a line, for `tools/mutants.py`."""

import ast
import hashlib
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("s4nd", "pretrained_2d", "videopipe")


@cache
def tests_of(file: str) -> dict[str, int]:
    """Test files for a module and how far each is from it.

    0: its mirrored test file; 1: tests that import it; 2: tests of its folder and of those around
    it; 3: tests that import a module of the product that imports it.
    """
    module = module_name(file)
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    users = [
        module_name(path.relative_to(ROOT).as_posix())
        for path in sources
        if path.name != "__init__.py" and _imports(path.read_text(), module)
    ]
    distances = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        test = path.relative_to(ROOT)
        text = path.read_text()
        reasons = (
            test == Path("tests", file).with_name(f"test_{Path(file).name}"),
            _imports(text, module),
            test.parent in Path("tests", file).parents[:-2],
            any(_imports(text, user) for user in users),
        )
        if any(reasons):
            distances[test.as_posix()] = reasons.index(True)
    return distances


def groups_of_tests(file: str, seconds: dict[str, float]) -> list[list[str]]:
    """Test files for a module: nearest first, and of those as near as each other the quickest."""
    distances = tests_of(file)
    ordered = sorted(distances, key=lambda test: (distances[test], seconds.get(test, 5.0), test))
    near = sum(distance < 2 for distance in distances.values()) or 1
    return [group for group in (ordered[:1], ordered[1:near], ordered[near:]) if group]


def in_groups(tests: list[str]) -> list[list[str]]:
    """Few tests first, since most mutants fail there and the others are then not collected."""
    return [group for group in (tests[:5], tests[5:30], tests[30:]) if group]


def module_name(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _imports(text: str, module: str) -> bool:
    package, _, name = module.rpartition(".")
    single = rf"from {re.escape(package)} import [^\n]*\b{name}\b"
    several = rf"from {re.escape(package)} import \([^)]*\b{name}\b"
    return re.search(rf"\b{re.escape(module)}\b(?!\.)|{single}|{several}", text) is not None


@cache
def digest(file: str) -> str:
    return hashlib.sha256((ROOT / file).read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class LineMap:
    """Tests by the lines that they execute, and what each takes."""

    seconds: dict[str, float]
    tests: dict[tuple[str, int], list[str]]

    def unrecorded(self, groups: list[list[str]]) -> list[list[str]]:
        """The test files of which no test is recorded."""
        recorded = {test.partition("::")[0] for test in self.seconds}
        return [[name for name in group if name not in recorded] for group in groups]

    def tests_for(self, file: str, line: int) -> list[str]:
        """Tests that execute a line, the nearest and quickest first.

        Where none does, those that execute another line of the same function.
        """
        found = self.tests.get((file, line), [])
        if not found:
            lines = function_around(file, line)
            found = list({test for other in lines for test in self.tests.get((file, other), [])})
        distances = tests_of(file)

        def order(test: str) -> tuple[bool, float, str]:
            return distances.get(test.partition("::")[0], 9) > 1, self.seconds[test], test

        return sorted(found, key=order)

    def within(self, tests: list[str], budget: float) -> list[str]:
        """The first of these tests, as many as take so many seconds together; at least one."""
        spent = accumulate(self.seconds[test] for test in tests)
        return [test for test, total in zip(tests, spent, strict=True) if total <= budget] or tests[
            :1
        ]


def function_around(file: str, line: int) -> range:
    """The lines of the innermost function around a line; none at the level of a module."""
    best = range(0)
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.FunctionDef):
            lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            if line in lines and (not best or len(lines) < len(best)):
                best = lines
    return best


def read_lines(path: Path) -> LineMap:
    """The last rows of each test, without the lines of files that have changed since."""
    rows = {row["test"]: row for row in map(json.loads, path.read_text().splitlines())}
    tests: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name, row in rows.items():
        for file, lines in row["lines"].items():
            if row["digests"][file] == digest(file):
                for line in lines:
                    tests[file, line].append(name)
    return LineMap({name: row["seconds"] for name, row in rows.items()}, tests)
