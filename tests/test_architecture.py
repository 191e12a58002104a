"""The shape of the code: who may import whom, where libraries live, how long a file may be."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("s4nd", "pretrained_2d", "videopipe")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
CODE = [*FILES, *sorted((ROOT / "tools").glob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
LONGEST = 300

# What each package may import of the others.
BELOW = {
    "s4nd": {"s4nd"},
    "pretrained_2d": {"s4nd", "pretrained_2d"},
    "videopipe": {"s4nd", "pretrained_2d", "videopipe", "pipelines"},
}
# Beside the standard library, the layer knows torch and einops only.
STANDARD_OF_S4ND = {"torch", "einops"}
FASTER_S4ND = tuple(  # loaded where numba is installed
    f"s4nd/{name}.py"
    for name in (
        "channels",
        "diagonals",
        "machine_code",
        "moving",
        "pole_pairs",
        "rank_one",
        "state_spaces",
    )
)
# A library named here is imported below these paths and nowhere else.
PLACES = {
    "yaml": ("videopipe/config.py",),
    "numba": ("s4nd/machine_code.py",),
    "av": ("videopipe/data/",),
    "decord": ("videopipe/data/",),
    "torchcodec": ("videopipe/data/",),
    "pytorchvideo": ("videopipe/data/",),
    "accelerate": (
        "pretrained_2d/training",
        "videopipe/inference",
        "videopipe/processes.py",
        "videopipe/runner.py",
    ),
}
# Read by `videopipe --help`: whatever they import there, everybody waits for.
QUICK = ("videopipe/cli.py", "videopipe/commands/", "videopipe/stages/")
HEAVY = {
    "torch", "torchvision", "timm", "numpy", "av", "accelerate", "pyarrow", "matplotlib", "PIL",
    "decord", "pytorchvideo", "torchcodec", "safetensors", "jinja2", "scipy", "rich", "yaml",
}  # fmt: skip


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path, *, top_level_only: bool = False) -> Iterator[str]:
    """The top names of every module that a file imports."""
    tree = ast.parse(path.read_text())
    nodes = iter(_runs_on_import(tree)) if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: relative import"
            yield (node.module or "").split(".")[0]


def _runs_on_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from _runs_on_import(child)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    package = name_of(path).split("/")[0]
    ours = set(imports(path)) & {*PACKAGES, "tools", "tests", "pipelines"}
    assert ours <= BELOW[package], f"{name_of(path)} imports {ours - BELOW[package]}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_libraries_keep_to_their_place(path: Path) -> None:
    for library in set(imports(path)) & set(PLACES):
        allowed = any(name_of(path).startswith(place) for place in PLACES[library])
        assert allowed, f"{name_of(path)} imports {library}; it belongs in {PLACES[library]}"


def test_the_layer_needs_torch_and_einops_only() -> None:
    import sys

    for path in (ROOT / "s4nd").rglob("*.py"):
        foreign = set(imports(path)) - set(sys.stdlib_module_names) - {"s4nd"}
        allowed = STANDARD_OF_S4ND | (
            {"llvmlite", "numba", "numpy"} if name_of(path) in FASTER_S4ND else set()
        )
        assert foreign <= allowed, f"{name_of(path)} imports {foreign}"


@pytest.mark.parametrize(
    "path", [path for path in FILES if name_of(path).startswith(QUICK)], ids=name_of
)
def test_what_help_reads_imports_nothing_heavy(path: Path) -> None:
    heavy = set(imports(path, top_level_only=True)) & HEAVY
    assert not heavy, f"{name_of(path)} imports {heavy} at its top; import it inside a function"


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_files_stay_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST, f"{name_of(path)} has {lines} lines; split it by idea"


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_no_file_is_a_drawer(path: Path) -> None:
    assert path.stem not in {"utils", "util", "common", "helpers", "misc"}


def test_packages_are_marked_as_typed() -> None:
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


def test_test_folders_are_not_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))
