"""Which test files belong to a module, for `tools/mutants.py`."""

import re
from functools import cache
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


def module_name(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _imports(text: str, module: str) -> bool:
    package, _, name = module.rpartition(".")
    single = rf"from {re.escape(package)} import [^\n]*\b{name}\b"
    several = rf"from {re.escape(package)} import \([^)]*\b{name}\b"
    return re.search(rf"\b{re.escape(module)}\b(?!\.)|{single}|{several}", text) is not None
