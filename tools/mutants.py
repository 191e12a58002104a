"""Change the code in small wrong ways, one at a time, and list the changes that no test detects.

    python tools/mutants.py --count 40 --minutes 20            # `make mutants`
    python tools/mutants.py --count 200 --minutes 240 --out mutants.jsonl

A mutant is one changed expression: `+` for `-`, `<` for `<=`, a number plus one, a keyword argument
left out, a condition negated. Mutants are drawn by `--seed` from the modules in TARGETS. For each,
the tests of the changed module run in a copy of the tree; the mutant is caught when one of them
fails or uses up its processor time. Survivors are printed as file:line, before and after. Results
are appended to `--out`, and a mutant that is listed there already is not run again.
"""

import argparse
import ast
import importlib
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("s4nd", "pretrained_2d", "videopipe")
TARGETS = (
    "s4nd/*.py",
    "pretrained_2d/training/*.py",
    "videopipe/finetuning/*.py",
    "videopipe/inflation/**/*.py",
    "videopipe/dataset/sampling.py",
    "videopipe/scoring/*.py",
    "videopipe/evaluation/**/*.py",
    "videopipe/pipeline/fingerprint.py",
    "videopipe/pipeline/results.py",
    "videopipe/prediction/score_journal.py",
    "videopipe/prediction/table/parts.py",
    "videopipe/prediction/table/merge.py",
)
# Processor time, so that a busy machine does not turn survivors into caught ones.
SECONDS_PER_PROCESS = 300
PRELOADED = (
    "accelerate", "av", "hypothesis", "matplotlib.pyplot", "numba", "pyarrow.parquet", "pytest",
    "timm", "torch", "torchvision", "yaml",
)  # fmt: skip
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
SILENT_CALLS = {"setting", "field", "warn", "warning", "info", "debug", "print", "add_argument"}


@dataclass(frozen=True)
class Mutant:
    """One changed expression of one file."""

    file: str
    line: int
    before: str
    after: str
    start: int  # offsets into the file, in characters
    end: int


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its text."""
    text = path.read_text()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = text.encode()
    for node in _expressions(ast.parse(text)):
        for changed in _changes(node):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            first = starts[node.lineno - 1] + node.col_offset
            last = starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutant(
                path.relative_to(ROOT).as_posix(),
                node.lineno,
                ast.unparse(node),
                ast.unparse(changed),
                len(raw[:first].decode()),
                len(raw[:last].decode()),
            )


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions that decide what is computed: no types, messages, decorators or docstrings."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call) and _name(node.func) in SILENT_CALLS:
        return
    if isinstance(node, ast.expr):
        yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "bases"}:
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _expressions(child)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
            if not any(isinstance(part, ast.Constant) and isinstance(part.value, str)
                       for part in ast.walk(node)):  # fmt: skip
                yield _with(node, op=SWAPPED[type(op)]())
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            yield _with(node, ops=[SWAPPED[type(op)]()])
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield _with(node, body=orelse, orelse=body)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield ast.Constant(2 * value or 1.0)
        case ast.Call(keywords=keywords):
            for index in range(len(keywords)):
                yield _with(node, keywords=keywords[:index] + keywords[index + 1 :])


def _with(node: ast.expr, **fields: object) -> ast.expr:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


@cache
def tests_of(file: str) -> list[str]:
    """Test files for a module, nearest first.

    Those of its name, of its folder, those that import it, and those that import a module of the
    product that imports it.
    """
    module = module_name(file)
    sources = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    users = [
        module_name(path.relative_to(ROOT).as_posix())
        for path in sources
        if path.name != "__init__.py" and _imports(path.read_text(), module)
    ]
    ranked = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        test = path.relative_to(ROOT)
        text = path.read_text()
        reasons = (
            test == Path("tests", file).with_name(f"test_{Path(file).name}"),
            test.parent == Path("tests", file).parent,
            _imports(text, module),
            any(_imports(text, user) for user in users),
        )
        if any(reasons):
            ranked.append((reasons.index(True), test.as_posix()))
    return [name for _, name in sorted(ranked)]


def module_name(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _imports(text: str, module: str) -> bool:
    package, _, name = module.rpartition(".")
    single = rf"from {re.escape(package)} import [^\n]*\b{name}\b"
    several = rf"from {re.escape(package)} import \([^)]*\b{name}\b"
    return re.search(rf"\b{re.escape(module)}\b(?!\.)|{single}|{several}", text) is not None


def caught(mutant: Mutant, tree: Path) -> bool:
    """Whether a test fails in a copy of the tree with this one change."""
    path = tree / mutant.file
    text = path.read_text()
    tests = tests_of(mutant.file)
    path.write_text(f"{text[: mutant.start]}({mutant.after}){text[mutant.end :]}")
    try:
        child = os.fork()
        if child == 0:
            os._exit(_run_tests(tree, tests))
        _, status = os.waitpid(child, 0)
    finally:
        path.write_text(text)
    return status != 0


def preload() -> None:
    """Import what the tests need and no mutant changes: test runs are forked and start with it."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as in tests/conftest.py
    for name in PRELOADED:
        importlib.import_module(name)


def _run_tests(tree: Path, tests: list[str]) -> int:
    """Run tests in a forked process; 0 when all of them pass."""
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_PER_PROCESS, SECONDS_PER_PROCESS))
    for stream in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree)
    sys.path.insert(0, str(tree))
    try:
        # Most mutants fail in the nearest file; the others are not even collected then.
        for files in filter(None, (tests[:1], tests[1:])):
            if status := pytest.main(["-x", "-q", "-p", "no:cacheprovider", *files]):
                return int(status)
        return 0
    except BaseException:  # noqa: BLE001 - whatever stops the tests has noticed the change
        return 1


def copy_tree(target: Path) -> Path:
    """A copy of the files that git tracks."""
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def main() -> int:
    """Run mutants until the count or the time is used up; exit code 1 when one survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="mutants to run (default 40)")
    parser.add_argument("--minutes", type=float, default=20, help="time budget (default 20)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default 0)")
    parser.add_argument("--workers", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--out", type=Path, help="append results here, one JSON object per line")
    args = parser.parse_args()

    files = sorted({path for pattern in TARGETS for path in ROOT.glob(pattern)})
    every = [m for path in files if args.only in str(path) for m in mutants_of(path)]
    random.Random(args.seed).shuffle(every)
    done: dict[str, bool] = {}
    if args.out and args.out.exists():
        rows = map(json.loads, args.out.read_text().splitlines())
        done = {json.dumps(row["mutant"]): row["caught"] for row in rows}
    print(f"{len(every)} mutants in {len(files)} files; running {args.count}", flush=True)

    preload()
    deadline = time.monotonic() + 60 * args.minutes
    results: list[tuple[Mutant, bool]] = []
    with tempfile.TemporaryDirectory() as folder:
        trees: Queue[Path] = Queue()
        for worker in range(args.workers):
            trees.put(copy_tree(Path(folder, str(worker))))

        def examine(mutant: Mutant) -> None:
            known = done.get(json.dumps(asdict(mutant)))
            if known is None:
                if time.monotonic() > deadline:
                    return
                tree = trees.get()
                known = caught(mutant, tree)
                trees.put(tree)
                if args.out:
                    with args.out.open("a") as file:
                        file.write(json.dumps({"mutant": asdict(mutant), "caught": known}) + "\n")
            results.append((mutant, known))
            if not known:
                place = f"{mutant.file}:{mutant.line}"
                print(f"SURVIVED {place}: {mutant.before} -> {mutant.after}", flush=True)

        with ThreadPoolExecutor(args.workers) as pool:
            list(pool.map(examine, every[: args.count]))
    survivors = sum(not known for _, known in results)
    print(f"{len(results)} mutants, {len(results) - survivors} caught, {survivors} survived")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
